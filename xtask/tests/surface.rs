//! The public items of each published library, `crates/*/surface.txt`: a change of the interface is a change of these lists. `UPDATE=1` writes
//! them.
//!
//! An item is listed if its module is public, or if a `pub use` of its crate names it. Items that a macro makes are not listed.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use quote::ToTokens;
use syn::{Attribute, Fields, ImplItem, Item, TraitItem, Type, UseTree, Visibility};

/// The crates without a public interface in Rust.
const WITHOUT: [&str; 5] = ["gguf-capi", "gguf-cli", "gguf-python", "gguf-test", "gguf-wasm"];

/// The published libraries: all other crates.
fn libraries(crates: &Path) -> Vec<String> {
    let folders = fs::read_dir(crates).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = folders.filter(|name| !WITHOUT.contains(&name.as_str())).collect();
    names.sort();
    assert!(names.len() >= 10, "{names:?}");
    names
}

/// A module of a crate.
struct Module {
    /// The path in the crate.
    path: String,
    is_public: bool,
    items: Vec<Item>,
}

/// Reads a module and those in it. `folder` has the files of its submodules.
fn read(file: &Path, folder: &Path, path: &str, is_public: bool, modules: &mut Vec<Module>) {
    let source = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let items = syn::parse_file(&source).unwrap_or_else(|e| panic!("{}: {e}", file.display())).items;
    for item in &items {
        let Item::Mod(module) = item else { continue };
        if module.content.is_some() || is_left_out(&module.attrs) {
            continue;
        }
        let name = module.ident.to_string();
        let (single, inside) = (folder.join(format!("{name}.rs")), folder.join(&name));
        let file = if single.exists() { single } else { inside.join("mod.rs") };
        read(&file, &inside, &format!("{path}::{name}"), is_public && is_pub(&module.vis), modules);
    }
    modules.push(Module { path: path.to_owned(), is_public, items });
}

fn is_pub(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Whether an item is for tests only, or hidden from the documentation.
fn is_left_out(attributes: &[Attribute]) -> bool {
    let texts = attributes.iter().map(|attribute| text(&attribute.meta));
    texts.into_iter().any(|text| text.contains("cfg(test") || text.contains("doctest") || text == "doc(hidden)")
}

/// Tokens, without the spaces around most signs.
fn text(tokens: &impl ToTokens) -> String {
    let mut text = tokens.to_token_stream().to_string().split_whitespace().collect::<Vec<_>>().join(" ");
    for (from, to) in [
        (" :: ", "::"),
        (":: ", "::"),
        (" ::", "::"),
        (" ( ", "("),
        ("( ", "("),
        (" (", "("),
        (" )", ")"),
        (" ,", ","),
        (" : ", ": "),
        ("& ", "&"),
        (" < ", "<"),
        ("< ", "<"),
        (" >", ">"),
        (" [ ", "["),
        ("[ ", "["),
        (" ]", "]"),
        (" ;", ";"),
        ("->", " -> "),
        ("  ", " "),
        ("  ", " "),
        (",)", ")"),
        (" - >", " ->"),
        ("# [", "#["),
    ] {
        text = text.replace(from, to);
    }
    text
}

/// The last names of a `use`.
fn used(tree: &UseTree, names: &mut BTreeSet<String>) {
    match tree {
        UseTree::Path(path) => used(&path.tree, names),
        UseTree::Group(group) => group.items.iter().for_each(|tree| used(tree, names)),
        UseTree::Name(name) => _ = names.insert(name.ident.to_string()),
        UseTree::Rename(name) => _ = names.insert(name.ident.to_string()),
        UseTree::Glob(_) => _ = names.insert("*".to_owned()),
    }
}

/// The derived traits, and whether the item may grow.
fn traits(attributes: &[Attribute]) -> String {
    let of_kind =
        |name: &str| attributes.iter().filter(|a| a.path().is_ident(name)).map(|a| text(&a.meta)).collect::<Vec<_>>();
    let all = [of_kind("non_exhaustive"), of_kind("derive")].concat();
    all.into_iter().map(|text| format!("#[{text}] ")).collect()
}

/// The public fields.
fn fields(fields: &Fields, of: &str, add: &mut dyn FnMut(String)) {
    for (number, field) in fields.iter().enumerate().filter(|(_, field)| is_pub(&field.vis)) {
        let name = field.ident.as_ref().map_or_else(|| number.to_string(), ToString::to_string);
        add(format!("{of}.{name}: {}", text(&field.ty)));
    }
}

/// The name of the type of an `impl`.
fn type_name(ty: &Type) -> Option<String> {
    match ty {
        Type::Path(path) => Some(path.path.segments.last()?.ident.to_string()),
        _ => None,
    }
}

/// Lists a public item; `is_seen` tells whether a name is that of a visible item.
fn list(item: &Item, path: &str, is_seen: &dyn Fn(&str) -> bool, add: &mut dyn FnMut(String)) {
    let at = |name: &dyn ToString| format!("{path}::{}", name.to_string());
    let visible = |name: &syn::Ident, visibility: &Visibility| is_pub(visibility) && is_seen(&name.to_string());
    match item {
        Item::Const(it) if visible(&it.ident, &it.vis) => add(format!("const {}: {}", at(&it.ident), text(&it.ty))),
        Item::Static(it) if visible(&it.ident, &it.vis) => add(format!("static {}: {}", at(&it.ident), text(&it.ty))),
        Item::Type(it) if visible(&it.ident, &it.vis) => add(format!("type {} = {}", at(&it.ident), text(&it.ty))),
        Item::Fn(it) if visible(&it.sig.ident, &it.vis) => add(format!("{path}: {}", text(&it.sig))),
        Item::Struct(it) if visible(&it.ident, &it.vis) => {
            let name = at(&it.ident);
            add(format!("{}struct {name}{}", traits(&it.attrs), text(&it.generics)));
            fields(&it.fields, &name, add);
        }
        Item::Enum(it) if visible(&it.ident, &it.vis) => {
            let name = at(&it.ident);
            add(format!("{}enum {name}{}", traits(&it.attrs), text(&it.generics)));
            for variant in &it.variants {
                let fields = variant.fields.iter().map(|f| match &f.ident {
                    Some(name) => format!("{name}: {}", text(&f.ty)),
                    None => text(&f.ty),
                });
                let fields = fields.collect::<Vec<_>>().join(", ");
                add(format!(
                    "{name}::{}{}",
                    variant.ident,
                    if fields.is_empty() { fields } else { format!(" {{ {fields} }}") }
                ));
            }
        }
        Item::Trait(it) if visible(&it.ident, &it.vis) => {
            let name = at(&it.ident);
            add(format!("trait {name}{}: {}", text(&it.generics), text(&it.supertraits)));
            for item in &it.items {
                match item {
                    TraitItem::Fn(f) => {
                        let default = if f.default.is_some() { ", with a default" } else { "" };
                        add(format!("{name}: {}{default}", text(&f.sig)));
                    }
                    item => add(format!("{name}: {}", text(item))),
                }
            }
        }
        Item::Use(it) if is_pub(&it.vis) => add(format!("{path}: pub use {}", text(&it.tree))),
        Item::Mod(it) if is_pub(&it.vis) => add(format!("mod {}", at(&it.ident))),
        Item::Impl(it) => {
            let Some(ty) = type_name(&it.self_ty).filter(|ty| is_seen(ty)) else { return };
            if let Some((of, _)) = &it.trait_ {
                return add(format!("impl{} {} for {path}::{ty}", text(&it.generics), text(of)));
            }
            for item in &it.items {
                match item {
                    ImplItem::Fn(f) if is_pub(&f.vis) && !is_left_out(&f.attrs) => {
                        add(format!("{path}::{ty}: {}", text(&f.sig)))
                    }
                    ImplItem::Const(c) if is_pub(&c.vis) => {
                        add(format!("{path}::{ty}: const {}: {}", c.ident, text(&c.ty)))
                    }
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

/// The list of a crate, sorted.
fn surface(source: &Path) -> String {
    let mut modules = Vec::new();
    read(&source.join("lib.rs"), source, "crate", true, &mut modules);
    let mut exported = BTreeSet::new();
    let uses = modules.iter().flat_map(|module| &module.items).filter_map(|item| match item {
        Item::Use(it) if is_pub(&it.vis) => Some(&it.tree),
        _ => None,
    });
    uses.for_each(|tree| used(tree, &mut exported));
    let public = |item: &Item| match item {
        Item::Struct(it) if is_pub(&it.vis) => Some(it.ident.to_string()),
        Item::Enum(it) if is_pub(&it.vis) => Some(it.ident.to_string()),
        Item::Trait(it) if is_pub(&it.vis) => Some(it.ident.to_string()),
        Item::Type(it) if is_pub(&it.vis) => Some(it.ident.to_string()),
        _ => None,
    };
    let in_public = modules.iter().filter(|module| module.is_public).flat_map(|module| &module.items);
    let types: BTreeSet<String> = in_public.filter_map(public).chain(exported.iter().cloned()).collect();
    let mut lines = BTreeSet::new();
    for module in &modules {
        let is_seen = |name: &str| if module.is_public { true } else { exported.contains(name) };
        for item in module.items.iter().filter(|item| !is_left_out(attributes(item))) {
            // The implementations of a public type may be in any module.
            let is_type = |name: &str| types.contains(name);
            let seen: &dyn Fn(&str) -> bool = if matches!(item, Item::Impl(_)) { &is_type } else { &is_seen };
            // Uses and modules within private modules are not visible.
            if module.is_public || !matches!(item, Item::Use(_) | Item::Mod(_)) {
                list(item, &module.path, seen, &mut |line| _ = lines.insert(line));
            }
        }
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(it) => &it.attrs,
        Item::Static(it) => &it.attrs,
        Item::Type(it) => &it.attrs,
        Item::Fn(it) => &it.attrs,
        Item::Struct(it) => &it.attrs,
        Item::Enum(it) => &it.attrs,
        Item::Trait(it) => &it.attrs,
        Item::Use(it) => &it.attrs,
        Item::Mod(it) => &it.attrs,
        Item::Impl(it) => &it.attrs,
        _ => &[],
    }
}

#[test]
fn the_lists_of_public_items_are_current() {
    let crates: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates");
    let mut stale = Vec::new();
    for name in libraries(&crates) {
        let (list, file) = (surface(&crates.join(&name).join("src")), crates.join(&name).join("surface.txt"));
        assert!(list.lines().count() > 10, "{name}");
        if fs::read_to_string(&file).unwrap_or_default().replace("\r\n", "\n") == list {
            continue;
        }
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&file, list).unwrap();
        } else {
            stale.push(name);
        }
    }
    assert!(
        stale.is_empty(),
        "public items of {stale:?} have changed: UPDATE=1 cargo test -p xtask writes the lists; review the difference"
    );
}
