//! `gguf view`: shows models in the browser.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use gguf_format::shard::ShardName;
use gguf_io::ReadAt;
use gguf_pipeline::Progress as _;

use crate::failure::{Failure, Outcome, Verdict};
use crate::open;
use crate::ui::Ui;
use crate::watch::Watch;

mod server;

use server::{Model, Served, Server};

/// How often signals and the state of the page are looked at.
const TICK: Duration = Duration::from_millis(100);

/// Show models in the browser, with their weights.
///
/// Serves the web viewer and the named files, or the parts of them that the page asks for, to this machine only, at an address with a secret path.
/// Nothing is uploaded. The program ends with Ctrl-C, or a few seconds after the page is closed.
///
/// For models on another machine, run it there: it then prints the ssh command that makes the address reachable from here.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  gguf view model.gguf
  gguf view model-00001-of-00009.gguf        all shards, which are in the same folder
  gguf view *.gguf                           a list to choose from
  gguf view model.gguf --no-open --port 8080")]
pub struct Args {
    /// Models to show; any shard of a split model
    #[arg(required = true, value_name = "MODEL")]
    models: Vec<PathBuf>,

    /// Print the address without opening the browser
    #[arg(long)]
    no_open: bool,

    /// Port; by default, any that is free
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
}

impl Args {
    pub fn run(&self, ui: &mut Ui) -> Outcome {
        let models = self.models.iter().map(|path| find(path)).collect::<Result<Vec<_>, _>>()?;
        let could_not = |e: &io::Error| Failure::CouldNotRun(format!("port {}: cannot listen: {e}", self.port));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port)).map_err(|e| could_not(&e))?;
        let port = listener.local_addr().map_err(|e| could_not(&e))?.port();
        let path = secret_path();
        let address = format!("http://127.0.0.1:{port}/{path}/");
        let watch = Watch::new(true);
        let server = Arc::new(Server::new(path, models));
        let accepting = Arc::clone(&server);
        // It ends with the process.
        drop(thread::spawn(move || accepting.accept(&listener)));
        writeln!(ui.out, "{address}")?;
        ui.flush()?;
        match ssh_host() {
            Some(host) => ui.note(&format!(
                "on the machine with the browser, run `ssh -N -L {port}:127.0.0.1:{port} {host}`, then open the address there"
            )),
            None if !self.no_open && !open_browser(&address) => ui.note("no browser could be opened; open the address in one"),
            None => {}
        }
        while !watch.is_cancelled() && !server.is_left() {
            thread::sleep(TICK);
        }
        Ok(Verdict::Good)
    }
}

/// A model with all its shards that exist.
fn find(path: &Path) -> Result<Model, Failure> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let siblings: Vec<String> = match ShardName::parse(&name) {
        Some(shard) if !open::is_url(path) => shard.siblings().collect(),
        _ => Vec::new(),
    };
    let mut files = vec![open_one(path, &name)?];
    for sibling in siblings.into_iter().filter(|sibling| *sibling != name) {
        let path = path.with_file_name(&sibling);
        if path.is_file() {
            files.push(open_one(&path, &sibling)?);
        }
    }
    Ok(Model { files })
}

fn open_one(path: &Path, name: &str) -> Result<Served, Failure> {
    let source: Arc<dyn ReadAt> = match open::source(path)? {
        Some(source) => source,
        None => Arc::new(gguf_io::open_regular(path)?),
    };
    let cannot = |e: io::Error| Failure::CouldNotRun(format!("{}: cannot read: {e}", path.display()));
    let bytes = source.size().map_err(cannot)?;
    Ok(Served { name: name.to_owned(), source, bytes })
}

/// A path that others cannot guess: 128 bits of a keyed hash, whose key is from the random numbers of the system.
fn secret_path() -> String {
    let key = RandomState::new();
    format!("{:016x}{:016x}", key.hash_one(0), key.hash_one(1))
}

/// This machine, if it is used over ssh.
fn ssh_host() -> Option<String> {
    let connection = std::env::var("SSH_CONNECTION").ok()?;
    let server = connection.split(' ').nth(2)?.to_owned();
    let user = std::env::var("USER").ok().filter(|user| !user.is_empty());
    Some(user.map_or(server.clone(), |user| format!("{user}@{server}")))
}

/// Opens an address in the browser. Returns whether there is a program for that.
fn open_browser(address: &str) -> bool {
    let (program, first): (&str, &[&str]) = match std::env::consts::OS {
        "macos" => ("open", &[]),
        "windows" => ("rundll32", &["url.dll,FileProtocolHandler"]),
        _ => ("xdg-open", &[]),
    };
    let mut command = Command::new(program);
    command.args(first).arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().is_ok()
}
