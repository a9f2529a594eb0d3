//! Files written by runs: one, or several that belong together.

use std::path::PathBuf;

use gguf_format::{Head, Layout};
use gguf_io::Output;

use crate::error::Error;
use crate::journal::{Identity, Journal};
use crate::progress::{Event, Progress};
use crate::run::{Overflow, Part, Run};

/// A file to write: the head, cut to the file's length, and what a run gives.
pub(crate) struct NewFile<'a> {
    /// Its name.
    pub(crate) path: PathBuf,
    /// Its head.
    pub(crate) head: &'a Head,
    /// Where everything lands.
    pub(crate) layout: &'a Layout,
    /// Its length.
    pub(crate) file_bytes: u64,
}

/// How files are written.
#[derive(Clone, Copy)]
pub(crate) struct Writing<'a> {
    /// The real paths of the files that are read, which must not be replaced.
    pub(crate) inputs: &'a [PathBuf],
    /// Replaces what is there.
    pub(crate) force: bool,
    /// Keeps what is done if the work ends early, and goes on with what was kept.
    pub(crate) resume: bool,
}

/// Writes files, each with the tensors of the run that follow those of the one before. None of them has its name before the data
/// of all is on the disk.
pub(crate) fn write_files(
    files: &[NewFile<'_>],
    run: &Run<'_>,
    how: Writing<'_>,
    progress: &dyn Progress,
) -> Result<Vec<Overflow>, Error> {
    for file in files {
        if file.path.canonicalize().is_ok_and(|real| how.inputs.contains(&real)) {
            return Err(Error::OverwritesInput { path: file.path.clone() });
        }
        Output::may_write(&file.path, how.force)?;
    }
    let mut begun = Vec::new();
    for file in files {
        begun.push(begin(file, run, how)?);
    }
    let tensors = files.iter().flat_map(|file| &file.head.tensors);
    let bytes = tensors.filter_map(|t| t.n_bytes().ok()).sum();
    progress.event(Event::Started { n_tensors: run.tensors.len(), bytes });

    let kept = begun.first().and_then(|(_, journal)| Some(journal.as_ref()?.path().to_owned()));
    match fill(files, run, &begun, progress) {
        Ok(overflows) => {
            for (output, journal) in begun {
                output.commit().map_err(|e| keep(e.into(), files, kept.clone()))?;
                if let Some(journal) = journal {
                    journal.remove();
                }
            }
            progress.event(Event::Finished);
            Ok(overflows)
        }
        // It would end in the same way the next time.
        Err(e) if e.is_bad_input() => {
            discard(begun);
            Err(e)
        }
        Err(e) => Err(keep(e, files, kept)),
    }
}

/// Opens an output, gives it its length and writes its head.
fn begin(file: &NewFile<'_>, run: &Run<'_>, how: Writing<'_>) -> Result<(Output, Option<Journal>), Error> {
    let mut head = file.head.encode(file.layout)?;
    head.truncate(usize::try_from(file.file_bytes).unwrap_or(usize::MAX));
    let (output, journal) = match how.resume {
        true => {
            let identity = Identity::of(&head, file.file_bytes, run, how.inputs)?;
            let (journal, output) = Journal::open(&file.path, how.force, &identity)?;
            (output, Some(journal))
        }
        false => (Output::create(&file.path, how.force)?, None),
    };
    let filled = output.set_len(file.file_bytes).and_then(|()| {
        output.write_at(0, &head)?;
        match &journal {
            Some(journal) if journal.is_resumed() => clear_padding(file, &output),
            _ => Ok(()),
        }
    });
    match (filled, journal) {
        (Ok(()), journal) => Ok((output, journal)),
        (Err(e), Some(journal)) if journal.is_resumed() => {
            Err(keep(e.into(), std::slice::from_ref(file), Some(journal.path().to_owned())))
        }
        // Nothing is done yet.
        (Err(e), journal) => {
            discard([(output, journal)]);
            Err(e.into())
        }
    }
}

/// Removes what was begun.
fn discard(begun: impl IntoIterator<Item = (Output, Option<Journal>)>) {
    for (output, journal) in begun {
        output.discard();
        if let Some(journal) = journal {
            journal.remove();
        }
    }
}

/// Makes what lies between tensors zero, as it is in a new file: chunks do not cover it, so nothing else would notice.
fn clear_padding(file: &NewFile<'_>, output: &Output) -> Result<(), gguf_io::Error> {
    let starts = (1..).map_while(|i| file.layout.file_offset(i)).chain([file.file_bytes]);
    for (i, (tensor, next)) in file.head.tensors.iter().zip(starts).enumerate() {
        let end = file.layout.file_offset(i).zip(tensor.n_bytes().ok()).map(|(start, bytes)| start + bytes);
        let padding = end.and_then(|end| Some((end, usize::try_from(next.checked_sub(end)?).ok()?)));
        if let Some((end, len @ 1..)) = padding {
            output.write_at(end, &vec![0; len])?;
        }
    }
    Ok(())
}

/// Does the run, and makes all data durable.
fn fill(
    files: &[NewFile<'_>],
    run: &Run<'_>,
    begun: &[(Output, Option<Journal>)],
    progress: &dyn Progress,
) -> Result<Vec<Overflow>, Error> {
    let (mut parts, mut first) = (Vec::new(), 0);
    for (file, (output, journal)) in files.iter().zip(begun) {
        parts.push(Part { first, layout: file.layout, output, journal: journal.as_ref() });
        first += file.head.tensors.len();
    }
    let overflows = run.execute(&parts, progress)?;
    for (output, _) in begun {
        output.sync()?;
    }
    Ok(overflows)
}

/// The error, with what it has left behind to go on from if there is a journal.
fn keep(why: Error, files: &[NewFile<'_>], journal: Option<PathBuf>) -> Error {
    match (journal, files) {
        (Some(journal), [first, others @ ..]) => Error::Kept {
            why: Box::new(why),
            partial: Output::partial_path(&first.path),
            journal,
            n_others: others.len(),
        },
        _ => why,
    }
}
