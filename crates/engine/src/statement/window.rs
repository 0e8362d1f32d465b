//! Times of the week: `mon-fri 08:00-18:00`, in local time or with `UTC` behind it.

/// A time of the week in minutes, from Monday 00:00.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WeekMinute(pub u16);

/// Days of the week, and a time of the day on each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeWindow {
    text: String,
    /// A bit for each day, Monday's the lowest.
    days: u8,
    from: u16,
    /// Behind midnight if that is not later than `from`.
    to: u16,
    zone: Zone,
}

/// Whose clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zone {
    Local,
    Utc,
}

const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const DAY: u16 = 24 * 60;

/// What may be written.
pub const WINDOW: &str =
    "days, times or both, like \"mon-fri 08:00-18:00\", \"sat,sun\" or \"22:00-06:00 UTC\"";

impl TimeWindow {
    pub fn read(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no time of the week: write {WINDOW}");
        let mut window =
            Self { text: text.to_owned(), days: 0, from: 0, to: DAY, zone: Zone::Local };
        let mut has_time = false;
        for word in text.split_whitespace() {
            if word.eq_ignore_ascii_case("UTC") {
                window.zone = Zone::Utc;
            } else if word.starts_with(|letter: char| letter.is_ascii_digit()) && !has_time {
                let (from, to) = word.split_once('-').ok_or_else(wrong)?;
                (window.from, window.to) =
                    (minute(from).ok_or_else(wrong)?, minute(to).ok_or_else(wrong)?);
                has_time = true;
            } else if window.days == 0 && !has_time {
                window.days = days(word).ok_or_else(wrong)?;
            } else {
                return Err(wrong());
            }
        }
        if window.days == 0 && !has_time || window.from >= DAY {
            return Err(wrong());
        }
        if window.days == 0 {
            window.days = 0x7f;
        }
        Ok(window)
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub const fn zone(&self) -> Zone {
        self.zone
    }

    /// Whether it is such a time. A time that goes beyond midnight belongs to the day on which it begins.
    pub const fn holds(&self, at: WeekMinute) -> bool {
        let (day, minute) = (at.0 / DAY % 7, at.0 % DAY);
        let today = self.days >> day & 1 == 1;
        let yesterday = self.days >> ((day + 6) % 7) & 1 == 1;
        match self.from < self.to {
            true => today && self.from <= minute && minute < self.to,
            false => today && self.from <= minute || yesterday && minute < self.to,
        }
    }
}

/// `mon`, `mon-fri` or `sat,sun`.
fn days(word: &str) -> Option<u8> {
    let day = |name: &str| DAYS.iter().position(|known| name.eq_ignore_ascii_case(known));
    let mut days = 0;
    for range in word.split(',') {
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (day(first)?, day(last)?),
            None => (day(range)?, day(range)?),
        };
        let mut at = first;
        days |= 1 << at;
        while at != last {
            at = (at + 1) % 7;
            days |= 1 << at;
        }
    }
    Some(days)
}

/// `08:00`, up to `24:00`.
fn minute(text: &str) -> Option<u16> {
    let (hours, minutes) = text.split_once(':')?;
    let is_short = |text: &str| (1..=2).contains(&text.len());
    let (hours, minutes): (u16, u16) = (
        hours.parse().ok().filter(|_| is_short(hours))?,
        minutes.parse().ok().filter(|_| minutes.len() == 2)?,
    );
    let minute = hours * 60 + minutes;
    (minutes < 60 && minute <= DAY).then_some(minute)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_hold_their_times() {
        let at = |day: u16, hour: u16, minute: u16| WeekMinute(day * DAY + hour * 60 + minute);
        for (text, inside, outside) in [
            (
                "mon-fri 08:00-18:00",
                vec![at(0, 8, 0), at(4, 17, 59)],
                vec![at(0, 7, 59), at(0, 18, 0), at(5, 9, 0)],
            ),
            ("sat,sun", vec![at(5, 0, 0), at(6, 23, 59)], vec![at(0, 0, 0), at(4, 23, 59)]),
            ("fri-mon", vec![at(4, 1, 0), at(0, 1, 0)], vec![at(1, 1, 0), at(3, 1, 0)]),
            (
                "22:00-06:00 UTC",
                vec![at(2, 23, 0), at(2, 5, 59), at(0, 1, 0)],
                vec![at(2, 6, 0), at(2, 21, 59)],
            ),
            ("sun 22:00-06:00", vec![at(6, 22, 0), at(0, 5, 59)], vec![at(6, 5, 0), at(0, 22, 0)]),
            ("00:00-24:00", vec![at(0, 0, 0), at(6, 23, 59)], vec![]),
        ] {
            let window = TimeWindow::read(text).expect(text);
            inside.iter().for_each(|at| assert!(window.holds(*at), "{text} {at:?}"));
            outside.iter().for_each(|at| assert!(!window.holds(*at), "{text} {at:?}"));
        }
        assert_eq!(TimeWindow::read("mon UTC").map(|it| it.zone()), Ok(Zone::Utc));
    }

    #[test]
    fn what_is_no_window_is_refused() {
        for text in [
            "",
            "UTC",
            "someday",
            "mon 8-18",
            "25:00-26:00",
            "08:60-09:00",
            "08:00",
            "24:00-25:00",
            "mon mon",
            "08:00-09:00 mon",
        ] {
            assert!(TimeWindow::read(text).is_err(), "{text}");
        }
    }
}
