//! Restrictions of a process that runs foreign code: no network, and no writing to files. They apply to the process that calls
//! [`enter`], for the rest of its life.

/// What a process can no longer do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Denied {
    /// Opening connections, except to processes of the same machine.
    pub network: bool,
    /// Creating, changing and removing files, except for devices.
    pub files: bool,
}

impl Denied {
    /// The names of what is denied.
    pub fn names(self) -> Vec<String> {
        [(self.network, "network"), (self.files, "files")]
            .iter()
            .filter(|(is, _)| *is)
            .map(|(_, n)| (*n).to_owned())
            .collect()
    }
}

/// Enters the restrictions, as far as the system has them: on Linux, those of seccomp and Landlock. Drivers of GPUs can still write to
/// devices and shared memory. Threads that exist are not restricted, so it must be called early.
pub fn enter() -> Denied {
    #[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
    return linux::enter();
    #[allow(unreachable_code, reason = "other systems")]
    Denied::default()
}

/// Separates standard output, on which messages are sent, from what the library prints: returns it, and makes standard error of it
/// for all others.
///
/// # Errors
/// If the system has no more file descriptors.
pub fn take_stdout() -> std::io::Result<std::fs::File> {
    #[cfg(unix)]
    {
        use std::os::fd::{AsFd, FromRawFd};
        let out = std::io::stdout().as_fd().try_clone_to_owned()?;
        // SAFETY: both descriptors are open for the life of the process.
        if unsafe { libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) } < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: the descriptor is owned by no one else.
        Ok(unsafe { std::fs::File::from_raw_fd(std::os::fd::IntoRawFd::into_raw_fd(out)) })
    }
    #[cfg(windows)]
    {
        use std::os::windows::io::AsHandle;
        Ok(std::io::stdout().as_handle().try_clone_to_owned()?.into())
    }
    #[cfg(not(any(unix, windows)))]
    Err(std::io::ErrorKind::Unsupported.into())
}

/// Ends the process at once. Other threads may be running code of the library, so nothing is cleaned up.
pub fn end(code: i32) -> ! {
    #[cfg(unix)]
    // SAFETY: the function has no preconditions.
    unsafe {
        libc::_exit(code)
    }
    #[cfg(not(unix))]
    std::process::exit(code)
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod linux {
    use std::ffi::c_long;
    use std::fs::File;
    use std::os::fd::AsRawFd;

    use super::Denied;

    pub fn enter() -> Denied {
        // SAFETY: the arguments are those of the manual page prctl(2); a process that dumps no core writes none.
        let is_bound = unsafe {
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
        };
        Denied { network: is_bound && deny_network(), files: is_bound && deny_files() }
    }

    /// The number that seccomp gives to the architecture, and that of the system call `socket`.
    #[cfg(target_arch = "x86_64")]
    const ARCHITECTURE: u32 = 0xc000_003e;
    #[cfg(target_arch = "aarch64")]
    const ARCHITECTURE: u32 = 0xc000_00b7;

    /// A filter of system calls: sockets of families other than those of the machine itself are refused, and so are the interfaces that could
    /// open them past the filter.
    fn deny_network() -> bool {
        const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
        const IF_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
        const IF_AT_LEAST: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
        const RETURN: u16 = 0x06; // BPF_RET | BPF_K
        const ALLOW: u32 = 0x7fff_0000;
        const REFUSE: u32 = 0x0005_0000;
        let [number, architecture, argument] = [0, 4, 16];
        let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
        let refuse = |error: i32| step(RETURN, 0, 0, REFUSE | error.unsigned_abs());
        let call = |n: c_long| u32::try_from(n).unwrap_or(u32::MAX);
        let family = |n: i32| n.unsigned_abs();
        let mut filter = [
            step(LOAD, 0, 0, architecture),
            step(IF_EQUAL, 1, 0, ARCHITECTURE),
            refuse(libc::ENOSYS),
            step(LOAD, 0, 0, number),
            // The calls of x32 have this bit.
            step(IF_AT_LEAST, 0, 1, 0x4000_0000),
            refuse(libc::ENOSYS),
            step(IF_EQUAL, 0, 1, call(libc::SYS_io_uring_setup)),
            refuse(libc::ENOSYS),
            step(IF_EQUAL, 1, 0, call(libc::SYS_socket)),
            step(RETURN, 0, 0, ALLOW),
            step(LOAD, 0, 0, argument),
            step(IF_EQUAL, 2, 0, family(libc::AF_UNIX)),
            step(IF_EQUAL, 1, 0, family(libc::AF_NETLINK)),
            refuse(libc::EACCES),
            step(RETURN, 0, 0, ALLOW),
        ];
        let program = libc::sock_fprog { len: u16::try_from(filter.len()).unwrap_or(0), filter: filter.as_mut_ptr() };
        // SAFETY: the program is valid during the call, and the kernel copies it.
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program, 0, 0) == 0 }
    }

    /// `struct landlock_ruleset_attr` of its first version.
    #[repr(C)]
    struct Ruleset {
        handled_access_fs: u64,
    }

    /// `struct landlock_path_beneath_attr`.
    #[repr(C, packed)]
    struct PathBeneath {
        allowed_access: u64,
        parent_fd: i32,
    }

    // The system calls and access rights of `linux/landlock.h`.
    const CREATE_RULESET: c_long = 444;
    const ADD_RULE: c_long = 445;
    const RESTRICT_SELF: c_long = 446;
    const WRITE_FILE: u64 = 1 << 1;
    const REMOVE_FILE: u64 = 1 << 5;
    const MAKE_REG: u64 = 1 << 8;
    const TRUNCATE: u64 = 1 << 14;
    /// Writing, removing, and creating of all kinds.
    const CHANGES: u64 = WRITE_FILE | 0x1ff0;

    fn deny_files() -> bool {
        // SAFETY: the arguments are those of the manual pages landlock_create_ruleset(2), landlock_add_rule(2) and landlock_restrict_self(2), and live
        // during the calls.
        unsafe {
            let version = libc::syscall(CREATE_RULESET, 0, 0, 1);
            if version < 1 {
                return false;
            }
            let truncate = if version >= 3 { TRUNCATE } else { 0 };
            let rules = Ruleset { handled_access_fs: CHANGES | truncate };
            let ruleset = libc::syscall(CREATE_RULESET, &raw const rules, size_of::<Ruleset>(), 0);
            if ruleset < 0 {
                return false;
            }
            for (folder, access) in [("/dev", WRITE_FILE | truncate), ("/dev/shm", MAKE_REG | REMOVE_FILE)] {
                let Ok(folder) = File::open(folder) else { continue };
                let rule = PathBeneath { allowed_access: access, parent_fd: folder.as_raw_fd() };
                libc::syscall(ADD_RULE, ruleset, 1, &raw const rule, 0);
            }
            let is_restricted = libc::syscall(RESTRICT_SELF, ruleset, 0) == 0;
            libc::close(i32::try_from(ruleset).unwrap_or(-1));
            is_restricted
        }
    }
}
