//! A run's directory, which appears whole or not at all.

use super::RecordError;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// End of the hidden name of a directory while a newer one takes its place; `python/onionlab/files.py` uses the same.
pub const REPLACED: &str = ".replaced";

/// The hidden directory in which a run's files grow. Dropped before [`RunDirectory::publish`], it leaves nothing.
#[derive(Debug)]
pub struct RunDirectory {
    hidden: PathBuf,
    target: PathBuf,
    published: bool,
}

impl RunDirectory {
    /// Opens a hidden directory beside the future `parent`/`name`, and removes what a killed process of this machine left for the same run.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn create(parent: &Path, name: &str) -> Result<Self, RecordError> {
        let hidden = parent.join(format!(".{name}.{}.{}.partial", machine(), std::process::id()));
        let create = || {
            fs::create_dir_all(parent)?;
            remove_abandoned(parent, name)?;
            fs::create_dir(&hidden)
        };
        create().map_err(|cause| RecordError::Io { path: hidden.clone(), cause })?;
        Ok(Self { hidden, target: parent.join(name), published: false })
    }

    /// Where the files go.
    pub fn path(&self) -> &Path {
        &self.hidden
    }

    /// Gives the directory its name, in place of one that is there already.
    ///
    /// At every moment one of the two is there, whole: the older one under a hidden name that ends in [`REPLACED`] between the two
    /// renamings. What a process that is killed just then leaves is put back by the next onionlab that works on these results.
    ///
    /// # Errors
    /// The directory cannot be renamed; the older one is there still.
    pub fn publish(mut self) -> Result<PathBuf, RecordError> {
        let replaced = self.replaced();
        let rename = || {
            let older = self.target.exists();
            if older {
                fs::rename(&self.target, &replaced)?;
            }
            fs::rename(&self.hidden, &self.target).inspect_err(|_| {
                if older {
                    // The first error is the one to tell.
                    let _ = fs::rename(&replaced, &self.target);
                }
            })
        };
        rename().map_err(|cause| RecordError::Io { path: self.target.clone(), cause })?;
        self.published = true;
        // A failure leaves a hidden directory behind, which the next onionlab removes.
        let _ = fs::remove_dir_all(&replaced);
        Ok(self.target.clone())
    }

    fn replaced(&self) -> PathBuf {
        let name = self.target.file_name().unwrap_or_default().to_string_lossy();
        self.target.with_file_name(format!(".{name}{REPLACED}"))
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        if !self.published {
            // Nothing can be done about a failure here, and the next run of the same name tries again.
            let _ = fs::remove_dir_all(&self.hidden);
        }
    }
}

fn remove_abandoned(parent: &Path, name: &str) -> io::Result<()> {
    let own = format!(".{name}.{}.", machine());
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        let file_name = entry.file_name();
        let process = file_name
            .to_str()
            .and_then(|file| file.strip_prefix(&own))
            .and_then(|file| file.strip_suffix(".partial"))
            .and_then(|process| process.parse::<u32>().ok());
        if process.is_some_and(|process| process == std::process::id() || !is_alive(process)) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// What tells this machine from others that write to the same file system, whose processes it does not know: of its name, as
/// hexadecimal digits.
fn machine() -> String {
    // FNV-1a, 32 bits.
    let name = fs::read("/proc/sys/kernel/hostname").unwrap_or_default();
    let hash = name.iter().fold(0x811c_9dc5_u32, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{hash:08x}")
}

/// Whether a process with this number runs; where there is no `/proc`, every process counts as alive.
fn is_alive(process: u32) -> bool {
    !Path::new("/proc/self").exists() || Path::new(&format!("/proc/{process}")).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("onionlab-directory-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        path
    }

    fn names(parent: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(parent).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_directory_appears_whole_or_not_at_all() {
        let parent = place("whole");
        let run = RunDirectory::create(&parent, "ewma--net0--seed1").unwrap();
        fs::write(run.path().join("run.parquet"), "half").unwrap();
        assert!(names(&parent)[0].starts_with('.'));
        drop(run);
        assert!(names(&parent).is_empty());
        for content in ["first", "second"] {
            let run = RunDirectory::create(&parent, "ewma--net0--seed1").unwrap();
            fs::write(run.path().join("run.parquet"), content).unwrap();
            let path = run.publish().unwrap();
            assert_eq!(fs::read_to_string(path.join("run.parquet")).unwrap(), content);
        }
        assert_eq!(names(&parent), ["ewma--net0--seed1"]);
        fs::remove_dir_all(parent).unwrap();
    }

    #[test]
    fn the_older_directory_stays_where_the_newer_one_cannot_come() {
        let parent = place("older");
        let older = RunDirectory::create(&parent, "ewma--net0--seed1").unwrap();
        fs::write(older.path().join("run.parquet"), "older").unwrap();
        let path = older.publish().unwrap();
        let newer = RunDirectory::create(&parent, "ewma--net0--seed1").unwrap();
        fs::remove_dir(newer.path()).unwrap();
        newer.publish().unwrap_err();
        assert_eq!(fs::read_to_string(path.join("run.parquet")).unwrap(), "older");
        assert_eq!(names(&parent), ["ewma--net0--seed1"]);
        fs::remove_dir_all(parent).unwrap();
    }

    #[test]
    fn what_a_killed_process_left_is_removed_and_what_a_live_one_writes_is_not() {
        let parent = place("killed");
        // Process 1 is alive; no process has the greatest number. What another machine writes may be alive there.
        let [here, elsewhere] = [machine(), "other".to_owned()];
        let left = [("a", &here, u32::MAX), ("a", &here, 1), ("a", &elsewhere, u32::MAX), ("b", &here, u32::MAX)]
            .map(|(run, machine, process)| format!(".{run}.{machine}.{process}.partial"));
        for name in &left {
            fs::create_dir_all(parent.join(name)).unwrap();
        }
        drop(RunDirectory::create(&parent, "a").unwrap());
        let mut kept = left[1..].to_vec();
        kept.sort();
        assert_eq!(names(&parent), kept);
        fs::remove_dir_all(parent).unwrap();
    }
}
