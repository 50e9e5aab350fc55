//! Writes the definition into `crds/yaml` and into the chart, and its outline into the former.

use std::{error::Error, fs, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for folder in ["crds/yaml", "charts/lockstep/files"] {
        let folder = root.join(folder);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(lockstep_crds::FILE), lockstep_crds::yaml())?;
    }
    fs::write(root.join("crds/yaml").join(lockstep_crds::OUTLINE_FILE), lockstep_crds::outline())?;
    Ok(())
}
