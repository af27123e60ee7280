//! The probe as a program of its own, for this crate's tests; the binary has it as an internal command.

fn main() {
    heaptrial_allocator::run_probe()
}
