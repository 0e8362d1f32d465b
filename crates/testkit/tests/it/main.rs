//! The one integration binary: the project's own files, and the running program from outside.

mod road;
mod tidy;
