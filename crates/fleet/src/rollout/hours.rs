//! Hours of the day in which nothing is restarted.

use std::fmt;
use std::str::FromStr;

use jiff::Zoned;
use jiff::civil::Time;
use serde::{Deserialize, Serialize};

/// From one time of the day to another, in the host's time zone; over midnight where the second is earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct QuietHours {
    from: Time,
    to: Time,
}

impl QuietHours {
    /// Whether a time is within.
    pub fn include(&self, time: Time) -> bool {
        if self.from < self.to {
            (self.from..self.to).contains(&time)
        } else {
            time >= self.from || time < self.to
        }
    }

    /// Why nothing is restarted now; `None` outside of these hours.
    pub fn hold_now(&self) -> Option<String> {
        self.include(Zoned::now().time()).then(|| format!("quiet hours until {}", clock(self.to)))
    }
}

fn clock(time: Time) -> String {
    format!("{:02}:{:02}", time.hour(), time.minute())
}

impl fmt::Display for QuietHours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", clock(self.from), clock(self.to))
    }
}

impl FromStr for QuietHours {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not a time range; use two different times such as 22:00-06:00");
        let time = |part: &str| Time::strptime("%H:%M", part.trim()).map_err(|_| wrong());
        let (from, to) = text.split_once('-').ok_or_else(wrong)?;
        let (from, to) = (time(from)?, time(to)?);
        if from == to { Err(wrong()) } else { Ok(Self { from, to }) }
    }
}

impl TryFrom<String> for QuietHours {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<QuietHours> for String {
    fn from(hours: QuietHours) -> Self {
        hours.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_may_go_over_midnight() {
        let day: QuietHours = "8:00-20:00".parse().unwrap();
        let night: QuietHours = "22:00-06:00".parse().unwrap();
        for (hour, in_day, in_night) in
            [(8, true, false), (20, false, false), (22, false, true), (0, false, true), (6, false, false)]
        {
            let time = Time::new(hour, 0, 0, 0).unwrap();
            assert_eq!((day.include(time), night.include(time)), (in_day, in_night), "{hour}");
        }
        assert_eq!(night.to_string(), "22:00-06:00");
        for wrong in ["", "8-20", "08:00", "08:00-08:00", "25:00-06:00"] {
            assert!(wrong.parse::<QuietHours>().is_err(), "{wrong}");
        }
    }
}
