/** A button that chooses files. */
export function Picker({ label, folder, onFiles }: { label: string; folder?: boolean; onFiles: (files: File[]) => void }) {
  return (
    <label class="button">
      {label}
      <input
        type="file"
        multiple
        {...(folder ? { webkitdirectory: true } : {})}
        onChange={(event) => {
          onFiles([...(event.currentTarget.files ?? [])]);
          event.currentTarget.value = "";
        }}
      />
    </label>
  );
}
