//! The files that a configuration is in, and those that it names.
//!
//! Invariants: what is read into memory is bounded; a file is at most read, never changed.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use backend::tls::TlsError;
use engine::statement::firewall::{FORMS_MAX, FirewallMode};
use wire::auth::Secret;
use zeroize::Zeroizing;

use super::check::{PASSWORDS, SECOND_PASSWORDS};
use super::plan::{ClientTlsMode, Password, ServerOptions};
use super::problem::{Origin, Problem, ProblemPlace, Report, Severity, Source};
use super::reader::{Reading, Written};

/// Reads the text of a configuration.
pub(super) fn read(path: &Path) -> Result<String, Problem> {
    let problem = |at, message| Problem {
        place: ProblemPlace { file: path.display().to_string(), at },
        severity: Severity::Error,
        option: None,
        message,
    };
    let bytes = read_at_most(path, CONFIG_MAX)
        .map_err(|error| problem(None, format!("the file cannot be read: {error}")))?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let valid = String::from_utf8_lossy(&error.as_bytes()[..at]).into_owned();
        let place = Source::new("", &valid).place(&Origin::Text(at..at));
        problem(place.at, "this is not UTF-8, the encoding of TOML".to_owned())
    })
}

/// Looks at what the plan names, and reads the passwords that stand in files of their own.
pub(super) fn look(reading: &mut Reading<'_>) {
    passwords(reading);
    certificates(reading);
    firewalls(reading);
    marks(reading);
    log_files(reading);
}

/// Reads the forms of statements that firewalls know.
fn firewalls(reading: &mut Reading<'_>) {
    let Reading { plan, rules: places, report, .. } = reading;
    for (rule, place) in plan.rules.iter_mut().zip(places.iter()) {
        let Some(firewall) = &mut rule.acts.firewall else { continue };
        let option = "rules.firewall.file";
        let path = firewall.file.display();
        let message = match read_at_most(&firewall.file, FORMS_SIZE_MAX) {
            Ok(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
                firewall.forms = lines.map(str::to_owned).collect();
                if firewall.forms.len() <= FORMS_MAX {
                    continue;
                }
                format!("{path} has more than {FORMS_MAX} forms of statements")
            }
            // It is made with the first form that is learnt.
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    && firewall.mode == FirewallMode::Learn =>
            {
                continue;
            }
            Err(error) => {
                format!("{path} cannot be read: {error}; mode = \"learn\" writes such a file")
            }
        };
        report.error(&place.of("firewall"), Some(option.to_owned()), message);
    }
}

/// A longer file of forms is not read.
const FORMS_SIZE_MAX: u64 = 64 << 20;

/// Marks what is in the files of certificates and keys, to be told when it is another one.
fn marks(reading: &mut Reading<'_>) {
    let mark = |(option, file): (&'static str, &Path)| {
        // What cannot be read has been told of already, or is of no use.
        let bytes = Zeroizing::new(fs::read(file).unwrap_or_default());
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        (option, hasher.finish())
    };
    reading.plan.contents = reading.plan.tls_files().map(mark).collect();
}

/// Warns if others can read a file in which a password stands.
pub(super) fn privacy(reading: &mut Reading<'_>, path: &Path) {
    let own = ["checks.password", "console.password", "http.token"];
    if let Some(option) = own.iter().find(|option| reading.written.is_in_text(option))
        && let Some(message) = readable_by_others(path)
    {
        let origin = reading.written.origin(option);
        reading.report.warn(&origin, option, message);
    }
    let option = "checks.password";
    let of_cluster = reading.clusters.iter().find(|it| it.written.is_in_text(option));
    if let Some(place) = of_cluster
        && let Some(message) = readable_by_others(path)
    {
        reading.report.warn(&place.written.origin(option), option, message);
    }
    let secrets = [PASSWORDS[0], PASSWORDS[1], SECOND_PASSWORDS[0], SECOND_PASSWORDS[1]];
    let has_secret = |written: &Written| secrets.iter().any(|path| written.has(path));
    let user = reading.users.iter().find(|user| has_secret(&user.written));
    if let Some(user) = user
        && let Some(message) = readable_by_others(path)
    {
        let option = secrets.iter().find(|path| user.written.has(path)).unwrap_or(&secrets[0]);
        let origin = user.written.origin(option);
        reading.report.warn(&origin, option, message);
    }
}

fn passwords(reading: &mut Reading<'_>) {
    let Reading { plan, written, users, clusters, report, .. } = reading;
    for (user, written) in plan.users.iter_mut().zip(users) {
        let second = (&user.second_password_file, &mut user.second_password, SECOND_PASSWORDS[2]);
        for (path, known, option) in
            [(&user.password_file, &mut user.password, PASSWORDS[2]), second]
        {
            let Some(path) = path else { continue };
            let password = password(path, &written.written.origin(option), option, report);
            *known = password.map(Password::Plain).or_else(|| known.take());
        }
    }
    if let Some(path) = &plan.checks.password_file {
        let option = "checks.password_file";
        let password = password(path, &written.origin(option), option, report);
        plan.checks.password = password.or_else(|| plan.checks.password.take());
    }
    let (all, passwords) = (&plan.checks, "checks.password_file");
    for (rule, place) in plan.clusters.iter_mut().zip(clusters) {
        let checks = &mut rule.options.checks;
        match &checks.password_file {
            Some(path) if place.written.has(passwords) => {
                let origin = place.written.origin(passwords);
                let password = password(path, &origin, passwords, report);
                checks.password = password.or_else(|| checks.password.take());
            }
            Some(_) => checks.password.clone_from(&all.password),
            None => {}
        }
    }
}

/// The password in a file that this option names.
fn password(path: &Path, origin: &Origin, option: &str, report: &mut Report<'_>) -> Option<Secret> {
    if let Some(message) = readable_by_others(path) {
        report.warn(origin, option, message);
    }
    let why = match read_password(path) {
        Ok(password) => return Some(password),
        Err(why) => why,
    };
    let message = format!("{} cannot be read: {why}", path.display());
    report.error(origin, Some(option.to_owned()), message);
    None
}

fn read_password(path: &Path) -> io::Result<Secret> {
    let mut bytes = read_at_most(path, PASSWORD_MAX)?;
    if bytes.ends_with(b"\n") {
        bytes.pop();
        if bytes.ends_with(b"\r") {
            bytes.pop();
        }
    }
    Ok(Secret::from(bytes))
}

fn certificates(reading: &mut Reading<'_>) {
    let Reading { plan, written, clusters, servers, report, .. } = reading;
    if plan.tls.mode != ClientTlsMode::Off {
        let files = &plan.tls.files;
        let named = Named {
            certificate: ("tls.cert", files.identity.as_ref().map(|it| &*it.certificate)),
            key: ("tls.key", files.identity.as_ref().map(|it| &*it.key)),
            authority: ("tls.client_ca", files.ca.as_deref()),
        };
        named.check(written, report, || files.config().err());
    }
    server_certificates(&plan.server, written, report);
    for (rule, place) in plan.clusters.iter().zip(clusters) {
        server_certificates(&rule.options.server, &place.written, report);
    }
    for (rule, place) in plan.servers.iter().zip(servers) {
        let (tls, _) = rule.tls_to(plan.governing(&rule.cluster).server);
        let own = rule.tls.identity.as_ref();
        let named = Named {
            certificate: ("servers.tls_cert", own.map(|it| &*it.certificate)),
            key: ("servers.tls_key", own.map(|it| &*it.key)),
            authority: ("servers.tls_ca", rule.tls.ca.as_deref()),
        };
        if rule.files().next().is_some() {
            named.check(&place.written, report, || tls.config().err());
        }
    }
}

/// Those of TLS to servers.
fn server_certificates(server: &ServerOptions, written: &Written, report: &mut Report<'_>) {
    let files = &server.tls;
    let named = Named {
        certificate: ("server.tls_cert", files.identity.as_ref().map(|it| &*it.certificate)),
        key: ("server.tls_key", files.identity.as_ref().map(|it| &*it.key)),
        authority: ("server.tls_ca", files.ca.as_deref()),
    };
    // An authority that verifies nothing has been told of already.
    if files.ca.is_none() || files.mode.verifies() {
        named.check(written, report, || files.config().err());
    }
}

/// The files of one side's TLS, each with the option that names it.
struct Named<'a> {
    certificate: (&'static str, Option<&'a Path>),
    key: (&'static str, Option<&'a Path>),
    authority: (&'static str, Option<&'a Path>),
}

impl Named<'_> {
    /// Tells which files cannot be read; if all can, what is wrong with what is in them.
    fn check(
        &self,
        written: &Written,
        report: &mut Report<'_>,
        config: impl FnOnce() -> Option<TlsError>,
    ) {
        let all = [self.certificate, self.key, self.authority];
        let mut error = |option: &str, message: String| {
            report.error(&written.origin(option), Some(option.to_owned()), message);
        };
        let mut is_whole = true;
        for (option, path) in all {
            let Some(path) = path else { continue };
            // That one of certificate and key is missing has been told already.
            let is_missing = path.as_os_str().is_empty();
            is_whole &= !is_missing;
            if let (false, Err(why)) = (is_missing, File::open(path)) {
                is_whole = false;
                error(option, format!("{} cannot be read: {why}", path.display()));
            }
        }
        if is_whole && all.iter().any(|(option, _)| written.has(option)) {
            let Some(wrong) = config() else { return };
            let of_file = |file: &Path| all.iter().find(|(_, path)| *path == Some(file));
            let option = match &wrong {
                TlsError::File { path, .. } => of_file(path),
                _ => all.iter().find(|(option, _)| written.has(option)),
            };
            error(option.map_or(self.certificate.0, |(option, _)| option), wrong.to_string());
        }
    }
}

fn log_files(reading: &mut Reading<'_>) {
    let Reading { plan, written, report, .. } = reading;
    for (option, file) in plan.logs.files() {
        let folder = match file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let wrong = match fs::metadata(folder) {
            Err(error) => Some(format!("its folder {} cannot be used: {error}", folder.display())),
            Ok(folder) if !folder.is_dir() => Some("its folder is a file".to_owned()),
            Ok(_) if file.is_dir() => Some(format!("{} is a folder", file.display())),
            Ok(_) => None,
        };
        if let Some(message) = wrong {
            report.error(&written.origin(option), Some(option.to_owned()), message);
        }
    }
}

fn read_at_most(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = File::open(path)?.take(max + 1).read_to_end(&mut bytes)?;
    if max < read as u64 {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it is longer than {max} bytes"),
        ));
    }
    Ok(bytes)
}

fn readable_by_others(path: &Path) -> Option<String> {
    let mode = fs::metadata(path).ok()?.mode();
    (mode & OTHERS_READ != 0).then(|| {
        let path = path.display();
        format!("there is a password in {path}, which everybody can read: chmod o-r {path}")
    })
}

const OTHERS_READ: u32 = 0o004;
const CONFIG_MAX: u64 = 16 << 20;
const PASSWORD_MAX: u64 = 64 << 10;
