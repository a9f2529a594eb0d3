//! When a failed request is sent again.

use std::hash::BuildHasher;
use std::time::{Duration, SystemTime};

use crate::error::{Error, Problem};
use crate::location::Url;
use crate::settings::{Event, Settings};

/// The number of bytes of progress after which earlier failures no longer count.
pub(crate) const PROGRESS: u64 = 1 << 20;

/// The longest time between two attempts, unless the server asks for more.
pub(crate) const LONGEST_BACKOFF: Duration = Duration::from_secs(10);

/// A failed request.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) error: Box<Error>,
    pub(crate) retry: Retry,
}

impl Failed {
    pub(crate) fn new(url: &Url, range: Option<(u64, Option<u64>)>, (problem, retry): (Problem, Retry)) -> Failed {
        Failed { error: Box::new(Error { range, ..Error::new(url, problem) }), retry }
    }
}

/// When to send a request again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retry {
    Never,
    /// At once, for example with a new link.
    Now,
    /// After the usual time.
    Later,
    /// After the time that the server asks for.
    After(Duration),
}

/// The attempts of one request.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    failures: u32,
    progress: u64,
}

impl Attempts {
    /// Notes bytes that arrived. Enough of them excuse earlier failures.
    pub(crate) fn advance(&mut self, bytes: u64) {
        self.progress += bytes;
        if self.progress >= PROGRESS {
            *self = Attempts::default();
        }
    }

    /// Waits until the next attempt.
    ///
    /// # Errors
    /// The error of the request, if there is no other attempt.
    pub(crate) fn failed(&mut self, settings: &Settings, failed: Failed) -> Result<(), Error> {
        let (mut error, retry) = (*failed.error, failed.retry);
        self.failures += 1;
        self.progress = 0;
        error.attempts = self.failures;
        let wait = match retry {
            Retry::Never => return Err(error),
            _ if self.failures >= settings.attempts => return Err(error),
            Retry::Now => Duration::ZERO,
            Retry::Later => backoff(settings.backoff, self.failures),
            // A little longer, because clocks and seconds are rounded, and all clients would come at the same time.
            Retry::After(wait) => wait + backoff(settings.backoff, 1),
        };
        let reason = error.problem.to_string();
        settings.observer.event(Event::Retry { url: &error.url, reason: &reason, wait });
        let mut left = wait;
        loop {
            if settings.observer.is_cancelled() {
                return Err(Error { problem: Problem::Cancelled, ..error });
            }
            let step = left.min(Duration::from_millis(100));
            if step.is_zero() {
                return Ok(());
            }
            std::thread::sleep(step);
            left -= step;
        }
    }
}

/// The time before the attempt after `failures` failures: doubled each time, and up to a quarter less or more.
fn backoff(first: Duration, failures: u32) -> Duration {
    let doubled = first.saturating_mul(1 << (failures - 1).min(16)).min(LONGEST_BACKOFF);
    let random = std::hash::RandomState::new().hash_one(failures) % 1000;
    doubled.mul_f64(0.75 + random as f64 / 2000.0)
}

/// The time that a server asks to wait: `Retry-After` in seconds or as a date, or the time of an exhausted `RateLimit`.
pub(crate) fn wait_of<'a>(header: impl Fn(&'static str) -> Option<&'a str>) -> Option<Duration> {
    if let Some(text) = header("retry-after") {
        let seconds = text.trim().parse().ok().map(Duration::from_secs);
        return seconds.or_else(|| Some(date(text)?.duration_since(SystemTime::now()).unwrap_or_default()));
    }
    let limits = header("ratelimit")?;
    let parameter = |limit: &str, name: &str| -> Option<u64> {
        limit.split(';').find_map(|part| part.trim().strip_prefix(name)?.strip_prefix('=')?.parse().ok())
    };
    let exhausted = limits.split(',').filter(|limit| parameter(limit, "r") == Some(0));
    exhausted.filter_map(|limit| parameter(limit, "t")).max().map(Duration::from_secs)
}

/// The time of a date such as `Sun, 06 Nov 1994 08:49:37 GMT`.
fn date(text: &str) -> Option<SystemTime> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let mut parts = text.split_once(", ")?.1.split(' ');
    let day: u64 = parts.next()?.parse().ok()?;
    let month = parts.next().filter(|month| month.len() == 3).and_then(|month| MONTHS.find(month))? as u64 / 3 + 1;
    let year: u64 = parts.next()?.parse().ok().filter(|year| (1970..10_000).contains(year))?;
    let mut time = parts.next()?.splitn(3, ':').map(|part| part.parse::<u64>().ok());
    let seconds = time.next()?? * 3600 + time.next()?? * 60 + time.next()??;
    // Days since 1970, with years that start in March.
    let (y, m) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = (y * 365 + y / 4 - y / 100 + y / 400 + (m * 153 + 2) / 5 + day).checked_sub(719_469)?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(days * 86_400 + seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(headers: &[(&'static str, &'static str)]) -> Option<u64> {
        wait_of(|name| headers.iter().find(|(n, _)| *n == name).map(|(_, v)| *v)).map(|wait| wait.as_secs())
    }

    #[test]
    fn servers_say_how_long_to_wait() {
        assert_eq!(wait(&[("retry-after", "7")]), Some(7));
        assert_eq!(wait(&[("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")]), Some(0));
        assert_eq!(wait(&[("retry-after", "soon")]), None);
        assert_eq!(wait(&[("ratelimit", r#""api";r=0;t=55"#)]), Some(55));
        assert_eq!(wait(&[("ratelimit", r#""api";r=3;t=55"#)]), None);
        assert_eq!(wait(&[("ratelimit", r#""api";r=3;t=55, "pages";r=0;t=9"#)]), Some(9));
        assert_eq!(wait(&[]), None);
    }

    #[test]
    fn dates() {
        let seconds = |text| Some(date(text)?.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs());
        assert_eq!(seconds("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(seconds("Thu, 29 Feb 2024 00:00:00 GMT"), Some(1_709_164_800));
        assert_eq!(seconds("Thu, 01 Jan 1970 00:00:01 GMT"), Some(1));
        for bad in ["", "x, ", "Sun, 06 Xyz 1994 08:49:37 GMT", "Sun, 06 Nov 1 08:49:37 GMT", "Sun, 06 Nov 1994 08"] {
            assert_eq!(seconds(bad), None, "{bad}");
        }
    }

    #[test]
    fn waits_double_up_to_a_limit() {
        for (failures, expected) in [(1, 100.0), (2, 200.0), (5, 1600.0), (30, 10_000.0)] {
            let wait = backoff(Duration::from_millis(100), failures).as_secs_f64() * 1000.0;
            assert!((expected * 0.74..expected * 1.26).contains(&wait), "{failures}: {wait}");
        }
    }
}
