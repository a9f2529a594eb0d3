/** The head of a table of facts: the name of a row, and columns of numbers. */
export function FactsHead({ columns: [first, ...numbers] }: { columns: string[] }) {
  return (
    <thead>
      <tr>
        <th scope="col">{first}</th>
        {numbers.map((title) => (
          <th key={title} scope="col" class="right">
            {title}
          </th>
        ))}
      </tr>
    </thead>
  );
}

/** What went wrong, if anything. */
export function Problem({ text }: { text: string | undefined }) {
  if (!text) return null;
  return (
    <p class="problem" role="alert">
      {text}
    </p>
  );
}
