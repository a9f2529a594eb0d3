//! Sensitivities of tensors: the divergence of a model from itself, when one tensor has the values that quantization leaves of it.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use crate::divergence::{BaseRow, Comparison};
use crate::engine::Engine;
use crate::perplexity::{Estimate, Perplexity, perplexity_by, scores_of};
use crate::windows::Windows;
use crate::{Error, ErrorKind};

/// The logits of a model after the scored tokens of a text, in a file: they are too many for memory.
#[derive(Debug)]
pub struct Original<'a> {
    file: &'a File,
    n_vocab: usize,
    perplexity: Perplexity,
    copies_weights: bool,
}

impl<'a> Original<'a> {
    /// Evaluates the loaded model and writes its logits to a file, four bytes for each token of the vocabulary after each scored token. `progress` is called
    /// with the number of windows and returns whether to go on.
    ///
    /// # Errors
    /// As for [`perplexity`](fn@crate::perplexity), and errors of the file.
    pub fn new(
        engine: &mut dyn Engine,
        windows: &Windows,
        n_vocab: usize,
        file: &'a File,
        mut progress: impl FnMut(usize) -> bool,
    ) -> Result<Original<'a>, Error> {
        let mut out = BufWriter::with_capacity(1 << 20, file);
        let write = |window: usize, logits: &[f32]| {
            logits.iter().try_for_each(|x| out.write_all(&x.to_le_bytes()))?;
            scores_of(windows, window, logits)
        };
        let perplexity = perplexity_by(engine, windows, write, |done, _| progress(done))?;
        out.flush()?;
        drop(out);
        Ok(Original { file, n_vocab, perplexity, copies_weights: false })
    }

    /// The perplexity of the model.
    pub fn perplexity(&self) -> &Perplexity {
        &self.perplexity
    }

    /// The mean divergence of the model whose file was changed. If the library does not see changes of the file, because it has copied the weights to a
    /// device, the model is loaded again from `model`.
    ///
    /// # Errors
    /// As for [`new`](Original::new).
    pub fn divergence(
        &mut self,
        engine: &mut dyn Engine,
        windows: &Windows,
        model: &Path,
        mut progress: impl FnMut(usize) -> bool,
    ) -> Result<Estimate, Error> {
        if !self.copies_weights {
            let found = self.compare(engine, windows, &mut progress)?;
            if found.value > 0.0 {
                return Ok(found);
            }
        }
        engine.load(model)?;
        let found = self.compare(engine, windows, &mut progress)?;
        // The earlier values would stay, so from now on each change needs a load. A tensor without any effect changes nothing here.
        self.copies_weights |= found.value > 0.0;
        Ok(found)
    }

    fn compare(
        &self,
        engine: &mut dyn Engine,
        windows: &Windows,
        progress: &mut impl FnMut(usize) -> bool,
    ) -> Result<Estimate, Error> {
        let mut file = self.file;
        file.seek(SeekFrom::Start(0))?;
        let mut file = BufReader::with_capacity(1 << 20, file);
        let mut comparison = Comparison::default();
        let mut base = vec![0.0_f32; windows.n_scored() * self.n_vocab];
        let compare = |window: usize, logits: &[f32]| {
            if logits.len() != base.len() {
                return Err(Error::new(ErrorKind::Mismatch, "the size of the vocabulary has changed"));
            }
            let mut bytes = [0; 4];
            for value in &mut base {
                file.read_exact(&mut bytes)?;
                *value = f32::from_le_bytes(bytes);
            }
            let row =
                |i: usize| BaseRow::Logits(base.get(i * self.n_vocab..(i + 1) * self.n_vocab).unwrap_or_default());
            comparison.add(windows, window, logits, row)?;
            Ok(Vec::new())
        };
        perplexity_by(engine, windows, compare, |done, _| progress(done))?;
        // Equal logits have no divergence at all; rounding may leave less than that of almost equal ones.
        let found = comparison.statistics().kld;
        Ok(Estimate { value: found.value.max(0.0), ..found })
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::path::PathBuf;

    use super::*;
    use crate::engine::{About, Context, Counts, Item, Loaded, Observed, Specials, Token};
    use crate::windows::WindowOptions;

    const N_VOCAB: usize = 3;

    /// A model with one weight, the first byte of its file: as the file is now, or as it was when it was loaded.
    struct OneWeight {
        about: About,
        path: PathBuf,
        copied: Option<u8>,
        n_loads: usize,
    }

    impl OneWeight {
        fn new(path: &Path, copies: bool) -> OneWeight {
            let mut engine =
                OneWeight { about: About::default(), path: path.to_owned(), copied: copies.then_some(0), n_loads: 0 };
            engine.load(path).unwrap();
            engine
        }
    }

    impl Engine for OneWeight {
        fn about(&self) -> &About {
            &self.about
        }

        fn load(&mut self, model: &Path) -> Result<Loaded, Error> {
            self.n_loads += 1;
            if self.copied.is_some() {
                self.copied = Some(std::fs::read(model)?[0]);
            }
            Ok(Loaded { n_vocab: N_VOCAB, ..Loaded::default() })
        }

        fn tokenize(&mut self, _: &[u8], _: Specials) -> Result<Vec<Token>, Error> {
            Ok(Vec::new())
        }

        fn piece(&mut self, _: Token, _: bool) -> Result<(Vec<u8>, bool), Error> {
            Ok(Default::default())
        }

        fn prepare(&mut self, _: &Context) -> Result<(), Error> {
            Ok(())
        }

        fn clear(&mut self) -> Result<(), Error> {
            Ok(())
        }

        fn evaluate(&mut self, _: &[Item]) -> Result<(), Error> {
            Ok(())
        }

        fn logits(&mut self, items: Range<usize>) -> Result<Vec<f32>, Error> {
            let weight = self.copied.unwrap_or(std::fs::read(&self.path)?[0]);
            Ok(items.flat_map(|_| [f32::from(weight) / 10.0, 0.0, 1.0]).collect())
        }

        fn counts(&mut self) -> Result<Counts, Error> {
            Ok(Counts::new())
        }

        fn observed(&mut self) -> Result<Observed, Error> {
            Ok(Observed::new())
        }

        fn observe_from(&mut self, _: Observed) -> Result<(), Error> {
            Ok(())
        }
    }

    /// The divergences with the weights 0, 5 and 2 from the original with 0, and how often the model was loaded.
    fn divergences(copies: bool) -> (Vec<f64>, usize) {
        let dir = tempfile::tempdir().unwrap();
        let model = dir.path().join("model");
        std::fs::write(&model, [0]).unwrap();
        let mut engine = OneWeight::new(&model, copies);
        let options = WindowOptions { n_ctx: 8, n_batch: 8, n_threads: 1, ..WindowOptions::default() };
        let windows = Windows::new(vec![1; 16], &Loaded::default(), options).unwrap();
        let file = File::options().read(true).write(true).create_new(true).open(dir.path().join("logits")).unwrap();
        let mut original = Original::new(&mut engine, &windows, N_VOCAB, &file, |_| true).unwrap();
        assert_eq!(original.perplexity().count, 6);
        let found = [0, 5, 2].map(|weight| {
            std::fs::write(&model, [weight]).unwrap();
            original.divergence(&mut engine, &windows, &model, |_| true).unwrap().value
        });
        (found.to_vec(), engine.n_loads)
    }

    #[test]
    fn changes_of_a_mapped_file_need_no_load() {
        let (found, n_loads) = divergences(false);
        assert!(found[0] == 0.0 && found[1] > found[2] && found[2] > 0.0, "{found:?}");
        // Only the one without a difference.
        assert_eq!(n_loads, 2);
        // If the library has copied the weights, the results are the same.
        let (copied, n_loads) = divergences(true);
        assert_eq!((copied, n_loads), (found, 4));
    }

    #[test]
    fn a_cancelled_measurement_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let model = dir.path().join("model");
        std::fs::write(&model, [0]).unwrap();
        let mut engine = OneWeight::new(&model, false);
        let options = WindowOptions { n_ctx: 8, n_batch: 8, n_threads: 1, ..WindowOptions::default() };
        let windows = Windows::new(vec![1; 16], &Loaded::default(), options).unwrap();
        let file = File::options().read(true).write(true).create_new(true).open(dir.path().join("logits")).unwrap();
        let e = Original::new(&mut engine, &windows, N_VOCAB, &file, |_| false).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Cancelled);
    }
}
