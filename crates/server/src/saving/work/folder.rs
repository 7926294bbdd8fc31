//! Check of the folder of snapshots at the start.

use crate::state::Server;
use durability::restart::Restart;
use settings::{Config, Id, temporary};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Checks at the start that snapshots can be written to `dir`, and removes the temporary files
/// there that a crash has left.
///
/// # Errors
/// Save points are set, and no file can be created. Without save points that is logged.
pub fn prepare(server: &Server) -> Result<(), String> {
    let wants = !server.config.text(Id::Save).is_empty();
    if server.data.segments.is_some() {
        if wants {
            log::warn!(
                "save points have no effect: the segment engine has no snapshots (--engine slab has)"
            );
        }
        return Ok(());
    }
    let dir = server.config.text(Id::Dir);
    let folder = Path::new(&dir);
    if let Err(error) = temporary::check_folder(folder) {
        if wants {
            return Err(format!(
                "dir {dir}: no file can be created there ({error}), but save points are set; expected a folder that the server may write, or save \"\""
            ));
        }
        log::warn!(
            "dir {dir}: no file can be created there ({error}), so that SAVE and BGSAVE fail"
        );
        return Ok(());
    }
    for folder in [folder, &folder.join(server.config.text(Id::AppendDirName))] {
        match temporary::remove_stale(folder) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                let path = folder.display();
                log::warn!("{path}: incomplete snapshots are not removed: {error}");
            }
            Ok(count @ 1..) => {
                let path = folder.display();
                log::info!("incomplete snapshots removed from {path}: {count}");
            }
            _ => {}
        }
    }
    report_restarts(&server.config, &server.lifecycle.restart, folder);
    Ok(())
}

/// Names the snapshots of restarts in a folder whose keys may be in no other file.
fn report_restarts(config: &Config, restart: &Restart, folder: &Path) {
    let inherited = restart.inherited();
    // If the folder cannot be read, that is in the log.
    let paths = temporary::of_restarts(folder).unwrap_or_default();
    let is_other =
        |path: &&PathBuf| path.file_name() != inherited.as_deref().and_then(Path::file_name);
    // The append-only file would be loaded in preference.
    let first = match config.is_on(Id::AppendOnly) {
        true => {
            let folder = folder.join(config.text(Id::AppendDirName));
            format!("move the folder {} away and ", folder.display())
        }
        false => String::new(),
    };
    for path in paths.iter().filter(is_other) {
        log::warn!(
            "{} has the keys of a server that has not completed its restart; {first}rename it to {} to load it at a start, or remove it",
            path.display(),
            config.text(Id::DbFilename)
        );
    }
}
