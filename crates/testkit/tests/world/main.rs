//! What the gate and the limit do in a simulated world, table by table. Each test prints its rows; run with
//! `--nocapture` to see them.

mod classic;
mod limits;
mod locks;
mod overload;
mod workers;
