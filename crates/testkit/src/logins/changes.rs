//! Accounts that are changed while clients of theirs are connected: what is changed, and by which statements.
//!
//! A [`Holder`] is what a run knows of an account: enough to change it, and to log in as it. What the server makes of a
//! change is the server's to say: nothing is judged by this.

use super::account::quote;
use super::attempt::BASES;
use super::generate::Abilities;
use crate::differ::generate::Random;
use crate::differ::program::Brand;

/// An account for all hosts.
#[derive(Clone, Debug)]
pub struct Holder {
    pub user: String,
    /// The one that it had before it was renamed, or that it gets.
    other_name: String,
    pub is_there: bool,
    /// What it takes, the newest last. It is never empty.
    pub passwords: Vec<String>,
    /// What it took once.
    pub former: Vec<String>,
    is_locked: bool,
    needs_tls: bool,
    /// It had a method once that Flifo does not have.
    pub has_signed: bool,
}

/// Where a change is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// Beside Flifo.
    Beside,
    /// By a client of Flifo's: one of [`BASES`].
    Through(usize),
}

/// How a client says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    Plain,
    Commented,
    Prepared,
    /// `EXECUTE IMMEDIATE`.
    Immediate,
    /// `BEGIN NOT ATOMIC … END`.
    Compound,
}

/// A change of an account.
#[derive(Clone, Debug)]
pub struct Change {
    pub statements: Vec<String>,
    pub maker: Maker,
    pub spelling: Spelling,
}

impl Holder {
    pub fn new(number: usize, password: String) -> Self {
        Self {
            user: format!("held{number}"),
            other_name: format!("renamed{number}"),
            is_there: true,
            passwords: vec![password],
            former: Vec::new(),
            is_locked: false,
            needs_tls: false,
            has_signed: false,
        }
    }

    /// Both names that it may have.
    pub fn names(&self) -> [&str; 2] {
        [&self.user, &self.other_name]
    }

    /// What makes it.
    pub fn create(&self, brand: Brand) -> Vec<String> {
        let (name, password) = (at_all(&self.user), quote(self.newest()));
        let method = match brand {
            Brand::MariaDb => "",
            Brand::MySql => "WITH caching_sha2_password ",
        };
        vec![
            format!("CREATE USER {name} IDENTIFIED {method}BY {password}"),
            format!("GRANT SELECT ON `of_{}`.* TO {name}", self.user),
        ]
    }

    fn newest(&self) -> &str {
        self.passwords.last().map_or("", String::as_str)
    }

    /// Changes it in some way.
    fn change(&mut self, random: &mut Random, can: Abilities, fresh: String) -> Vec<String> {
        let name = at_all(&self.user);
        if !self.is_there {
            return self.come_back(random, can, fresh);
        }
        match random.below(15) {
            0..=3 => self.set_password(random, can.brand, fresh),
            4..=9 => self.rotate(random, can, &fresh),
            10 => {
                self.is_locked = !self.is_locked;
                let how = if self.is_locked { "LOCK" } else { "UNLOCK" };
                vec![format!("ALTER USER {name} ACCOUNT {how}")]
            }
            11 if can.tls => {
                self.needs_tls = !self.needs_tls;
                let what = if self.needs_tls { "SSL" } else { "NONE" };
                vec![format!("ALTER USER {name} REQUIRE {what}")]
            }
            12 => {
                std::mem::swap(&mut self.user, &mut self.other_name);
                vec![format!("RENAME USER {name} TO {}", at_all(&self.user))]
            }
            13 => {
                self.go();
                vec![format!("DROP USER {name}")]
            }
            _ => {
                self.go();
                let dropped = format!("DROP USER {name}");
                [vec![dropped], self.come_back(random, can, fresh)].concat()
            }
        }
    }

    fn go(&mut self) {
        (self.is_there, self.is_locked, self.needs_tls) = (false, false, false);
    }

    /// Is made anew, with the password of before or with another one.
    fn come_back(&mut self, random: &mut Random, can: Abilities, fresh: String) -> Vec<String> {
        let kept = self.passwords.split_off(self.passwords.len() - 1);
        self.former.append(&mut self.passwords);
        self.passwords = kept;
        if !random.once_in(3) {
            self.take(fresh);
        }
        self.is_there = true;
        self.create(can.brand)
    }

    /// Takes this one alone.
    fn take(&mut self, password: String) {
        self.former.retain(|it| *it != password);
        self.former.extend(self.passwords.drain(..).filter(|it| *it != password));
        self.passwords = vec![password];
    }

    fn set_password(&mut self, random: &mut Random, brand: Brand, fresh: String) -> Vec<String> {
        let password = match self.former.is_empty() || !random.once_in(4) {
            true => fresh,
            false => self.former[random.below(self.former.len())].clone(),
        };
        self.take(password);
        let (name, password) = (at_all(&self.user), quote(self.newest()));
        vec![match (random.once_in(3), brand) {
            (true, Brand::MariaDb) => format!("SET PASSWORD FOR {name} = PASSWORD({password})"),
            (true, Brand::MySql) => format!("SET PASSWORD FOR {name} = {password}"),
            (false, _) => format!("ALTER USER {name} IDENTIFIED BY {password}"),
        }]
    }

    /// One password becomes two, or two become one: the newer, or now and then the older.
    fn rotate(&mut self, random: &mut Random, can: Abilities, fresh: &str) -> Vec<String> {
        let name = at_all(&self.user);
        if let [old, new] = &self.passwords[..] {
            let (old, new) = (old.clone(), new.clone());
            return match (can.brand, random.once_in(4)) {
                (Brand::MySql, _) => {
                    self.take(new);
                    vec![format!("ALTER USER {name} DISCARD OLD PASSWORD")]
                }
                (Brand::MariaDb, goes_back) => {
                    self.take(if goes_back { old } else { new });
                    vec![format!("ALTER USER {name} IDENTIFIED BY {}", quote(self.newest()))]
                }
            };
        }
        let old = self.newest().to_owned();
        self.passwords = vec![old.clone(), fresh.to_owned()];
        match can.brand {
            Brand::MySql => vec![format!(
                "ALTER USER {name} IDENTIFIED BY {} RETAIN CURRENT PASSWORD",
                quote(fresh)
            )],
            Brand::MariaDb => {
                let method = |password: &str, is_ed25519: bool| {
                    let method = if is_ed25519 { "ed25519" } else { "mysql_native_password" };
                    format!("{method} USING PASSWORD({})", quote(password))
                };
                let is_ed25519 = can.ed25519 && random.once_in(4);
                self.has_signed |= is_ed25519;
                let mut both = [method(&old, false), method(fresh, is_ed25519)];
                if random.once_in(2) {
                    both.reverse();
                }
                vec![format!("ALTER USER {name} IDENTIFIED VIA {}", both.join(" OR "))]
            }
        }
    }
}

/// The next change of one of these. The number makes its password a new one.
pub fn change(random: &mut Random, holder: &mut Holder, can: Abilities, number: usize) -> Change {
    let statements = holder.change(random, can, format!("password{number}"));
    let maker = match random.below(3) {
        0 => Maker::Beside,
        _ => Maker::Through(random.below(BASES.len())),
    };
    let spelling = match (random.below(8), can.brand) {
        (0, _) => Spelling::Commented,
        (1, Brand::MariaDb) => Spelling::Prepared,
        (2, Brand::MariaDb) => Spelling::Immediate,
        (3, Brand::MariaDb) => Spelling::Compound,
        _ => Spelling::Plain,
    };
    Change { statements, maker, spelling }
}

impl Spelling {
    /// The statement so spelled.
    pub fn spell(self, statement: &str) -> String {
        match self {
            Self::Plain | Self::Prepared => statement.to_owned(),
            Self::Commented => format!("/* a change */ {statement} -- of an account"),
            Self::Immediate => format!("EXECUTE IMMEDIATE {}", quote(statement)),
            Self::Compound => format!("BEGIN NOT ATOMIC {statement}; END"),
        }
    }
}

fn at_all(user: &str) -> String {
    format!("{}@'%'", quote(user))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_always_has_a_password_and_is_made_before_it_is_changed() {
        for brand in [Brand::MariaDb, Brand::MySql] {
            let can = Abilities { brand, ed25519: true, native: true, tls: true };
            let (mut random, mut kinds) = (Random::new(1), [0_u32; 4]);
            let mut holder = Holder::new(0, "first".to_owned());
            for number in 0..1000 {
                let was_there = holder.is_there;
                let change = change(&mut random, &mut holder, can, number);
                assert_eq!(change.statements[0].starts_with("CREATE"), !was_there, "{change:?}");
                assert!((1..=2).contains(&holder.passwords.len()), "{holder:?}");
                assert!(holder.passwords.iter().all(|it| !holder.former.contains(it)));
                let told = |word: &str| change.statements.iter().any(|it| it.contains(word));
                let words = [" OR ", "RETAIN", "LOCK", "RENAME"];
                for (kind, word) in kinds.iter_mut().zip(words) {
                    *kind += u32::from(told(word));
                }
            }
            let [methods, retained, locks, renamed] = kinds;
            assert!(0 < methods + retained && 0 < locks && 0 < renamed, "{kinds:?}");
        }
    }
}
