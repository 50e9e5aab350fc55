use super::Failure;
use crate::args::DemoArgs;

pub(super) fn demo(_args: &DemoArgs) -> Result<(), Failure> {
    Ok(())
}
