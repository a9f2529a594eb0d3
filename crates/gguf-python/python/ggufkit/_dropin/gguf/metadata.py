"""Facts about a model that go into its file: name, author, license, base models, and settings of samplers."""

from __future__ import annotations

import json
import logging
import re
import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator, Literal, Optional

import gguf

from .constants import Keys

try:
    import yaml
except ImportError:
    # Only model cards need it.
    yaml: Any = None

logger = logging.getLogger("metadata")

_Kind = Literal["basename", "size_label", "finetune", "version", "type"]

# Fields of a model card, in the order in which they are looked for: the field here, and its name in the card.
_PLAIN_FIELDS = (
    "name author version organization description finetune basename size_label source_url source_doi source_uuid source_repo_url"
).split()
_CARD_FIELDS = (
    *((field, field.removeprefix("source_")) for field in _PLAIN_FIELDS),
    *((field, "model_" + field.removeprefix("source_")) for field in _PLAIN_FIELDS),
    ("author", "model_creator"),
    ("basename", "model_type"),
)
_LICENSE_FIELDS = ("license", "license_name", "license_link")
# Fields that add up: those of a card with any of these names.
_LIST_FIELDS = (("tags", "tags"), ("tags", "pipeline_tag"), ("languages", "languages"), ("languages", "language"))

# Settings of samplers with another name in `generation_config.json`.
_SAMPLER_NAMES = {"temp": ("temperature",), "penalty_repeat": ("penalty_repeat", "repetition_penalty")}


@dataclass
class Metadata:
    # Recommended settings of samplers.
    sampling_sequence: Optional[str] = None
    sampling_top_k: Optional[int] = None
    sampling_top_p: Optional[float] = None
    sampling_min_p: Optional[float] = None
    sampling_xtc_probability: Optional[float] = None
    sampling_xtc_threshold: Optional[float] = None
    sampling_temp: Optional[float] = None
    sampling_penalty_last_n: Optional[int] = None
    sampling_penalty_repeat: Optional[float] = None
    sampling_mirostat: Optional[int] = None
    sampling_mirostat_tau: Optional[float] = None
    sampling_mirostat_eta: Optional[float] = None

    # The model and its origin.
    name: Optional[str] = None
    author: Optional[str] = None
    version: Optional[str] = None
    organization: Optional[str] = None
    finetune: Optional[str] = None
    basename: Optional[str] = None
    description: Optional[str] = None
    quantized_by: Optional[str] = None
    size_label: Optional[str] = None
    url: Optional[str] = None
    doi: Optional[str] = None
    uuid: Optional[str] = None
    repo_url: Optional[str] = None
    source_url: Optional[str] = None
    source_doi: Optional[str] = None
    source_uuid: Optional[str] = None
    source_repo_url: Optional[str] = None
    license: Optional[str] = None
    license_name: Optional[str] = None
    license_link: Optional[str] = None
    base_models: Optional[list[dict]] = None
    tags: Optional[list[str]] = None
    languages: Optional[list[str]] = None
    datasets: Optional[list[dict]] = None

    @staticmethod
    def load(metadata_override_path: Optional[Path] = None, model_path: Optional[Path] = None, model_name: Optional[str] = None, total_params: int = 0) -> Metadata:
        """The metadata of a checkpoint: of its model card, its configuration and its name. The file of overrides takes precedence."""
        metadata = Metadata.apply_metadata_heuristic(
            Metadata(), Metadata.load_model_card(model_path), Metadata.load_hf_parameters(model_path), model_path, total_params
        )
        samplers = Metadata.load_generation_config(model_path)
        overrides = Metadata.load_metadata_override(metadata_override_path)
        for field in (field.name for field in dataclasses.fields(Metadata)):
            if (setting := field.removeprefix("sampling_")) != field:
                for name in _SAMPLER_NAMES.get(setting, (setting,)):
                    if name in samplers:
                        setattr(metadata, field, samplers[name])
                        break
            if field in ("base_models", "datasets"):
                key = f"general.{field}"
            elif field == "license":
                continue
            else:
                key = getattr(Keys.General, field.upper())
            if key in overrides:
                setattr(metadata, field, overrides[key])
        if model_name is not None:
            metadata.name = model_name
        return metadata

    @staticmethod
    def load_metadata_override(metadata_override_path: Optional[Path] = None) -> dict[str, Any]:
        return _read_json(metadata_override_path) or {}

    @staticmethod
    def load_model_card(model_path: Optional[Path] = None) -> dict[str, Any]:
        """The YAML at the start of `README.md`, between two lines `---`."""
        path = _file_of(model_path, "README.md")
        if path is None or not path.is_file():
            return {}
        first, *lines = path.read_text(encoding="utf-8").splitlines() or [""]
        if first != "---":
            return {}
        text = "".join(f"{line}\n" for line in (lines[: lines.index("---")] if "---" in lines else lines))
        # YAML 1.1 reads the language code of Norwegian as false, and does not allow tabs.
        text = text.replace("- no\n", '- "no"\n').replace("\t", "  ")
        if yaml is None:
            raise ImportError(f"{path} has metadata in YAML: install PyYAML to read it (pip install pyyaml)")
        card = yaml.safe_load(text or "\n")
        if isinstance(card, dict):
            return card
        if text.strip("\n"):
            logger.error(f"while reading YAML model card frontmatter, data is {type(card)} instead of dict")
        return {}

    @staticmethod
    def load_hf_parameters(model_path: Optional[Path] = None) -> dict[str, Any]:
        return _read_json(_file_of(model_path, "config.json")) or {}

    @staticmethod
    def load_generation_config(model_path: Optional[Path] = None) -> dict[str, Any]:
        """`generation_config.json`, or nothing if it is not valid."""
        try:
            return _read_json(_file_of(model_path, "generation_config.json")) or {}
        except (json.JSONDecodeError, OSError):
            return {}

    @staticmethod
    def id_to_title(string):
        """Words with capitals, except versions, numbers and words that have capitals already."""
        words = string.strip().replace("-", " ").split()
        return " ".join(
            word.title() if word.islower() and not re.match(r"^(v\d+(?:\.\d+)*|\d.*)$", word) else word for word in words
        )

    @staticmethod
    def get_model_id_components(model_id: Optional[str] = None, total_params: int = 0) -> tuple[str | None, str | None, str | None, str | None, str | None, str | None]:
        """The parts of an identifier such as `org/Name-7B-Instruct-v0.2`: name, organization, base name, fine-tune, version, size.

        `total_params` tells sizes from context lengths. It is negative for adapters.
        """
        if model_id is None:
            return None, None, None, None, None, None
        if " " in model_id:
            # A title.
            return model_id, None, None, None, None, None
        organization, slash, full_name = model_id.partition("/")
        if not slash:
            organization, full_name = None, model_id
        elif organization.startswith("."):
            # A path.
            organization = None

        parts = [_Part(text) for text in full_name.split("-") if text]
        for i, part in enumerate(parts):
            part.recognize(i == 0, total_params)
        sizes = [part for part in parts if "size_label" in part.kinds]
        if any(c.isdecimal() for part in sizes for c in part.text):
            # Words such as "small" are sizes only if there is no number.
            for part in sizes:
                if part.text.isalpha():
                    part.kinds.remove("size_label")
        _find_basename(parts)

        def joined(*kinds: _Kind, without: _Kind | None = None) -> list[str]:
            return [part.text for part in parts if part.kinds.issuperset(kinds) and without not in part.kinds]

        basename = "-".join(joined("basename")) or None
        size_label = "-".join(dict.fromkeys(joined("size_label"))) or None
        finetune = "-".join(joined("finetune")) or None
        version = "-".join(joined("version", without="basename")) or None
        if size_label is None and finetune is None and version is None:
            # The whole name is ambiguous.
            basename = None
        return full_name, organization, basename, finetune, version, size_label

    @staticmethod
    def apply_metadata_heuristic(metadata: Metadata, model_card: Optional[dict] = None, hf_params: Optional[dict] = None, model_path: Optional[Path] = None, total_params: int = 0) -> Metadata:
        """Fill in what the model card says, then what the identifier in the configuration and the name of the folder say."""
        if model_card is not None:
            _apply_card(metadata, model_card, total_params)
        if hf_params is not None:
            model_id = hf_params.get("_name_or_path")
            # More than one slash is a path on someone's computer.
            if model_id is not None and model_id.count("/") <= 1:
                _apply_id(metadata, model_id, total_params)
        if model_path is not None:
            _apply_id(metadata, model_path.name, total_params)
        return metadata

    def set_gguf_meta_model(self, gguf_writer: gguf.GGUFWriter):
        """Add the keys of all fields that have a value."""
        assert self.name is not None
        order = [field.name for field in dataclasses.fields(self)]
        # The license comes before the addresses, and tags come last.
        license, address = order.index("license"), order.index("url")
        order[address:license + 3] = order[license:license + 3] + order[address:license]
        order.remove("datasets")
        order.insert(order.index("base_models") + 1, "datasets")
        for field in order:
            value = getattr(self, field)
            if value is None:
                continue
            if field in ("base_models", "datasets"):
                _add_sources(gguf_writer, field.removesuffix("s"), value)
            elif field == "license" and isinstance(value, list):
                gguf_writer.add_license(",".join(value))
            else:
                getattr(gguf_writer, f"add_{field}")(value)


def _file_of(folder: Path | None, name: str) -> Path | None:
    if folder is None or not folder.is_dir():
        return None
    return folder / name


def _read_json(path: Path | None) -> Any:
    if path is None or not path.is_file():
        return None
    with open(path, encoding="utf-8") as file:
        return json.load(file)


@dataclass
class _Part:
    """A word of an identifier, and what it may be."""

    text: str

    def __post_init__(self) -> None:
        self.kinds: set[_Kind] = set()

    def recognize(self, is_first: bool, total_params: int) -> None:
        def is_a(pattern: str) -> bool:
            return re.fullmatch(pattern, self.text, re.IGNORECASE) is not None

        if is_a(r"(v|iter)?\d+([.]\d+)*"):
            self.kinds.add("version")
        elif is_a(r"i?q\d(_\w)*|b?fp?(16|32)"):
            self.kinds.add("type")
            self.text = self.text.upper()
        elif is_first:
            return
        elif is_a(r"(([A]|\d+[x])?\d+([._]\d+)?[KMBT][\d]?|small|mini|medium|large|x?xl)"):
            self._recognize_size(total_params)
        elif is_a(r"chat|instruct|vision|lora"):
            # A LoRA adapter says so by its type.
            is_kind = total_params < 0 and self.text.lower() == "lora"
            self.kinds.add("type" if is_kind else "finetune")

    def _recognize_size(self, total_params: int) -> None:
        text = self.text.replace("_", ".")
        if text[-1].isdecimal():
            # 7b1 means 7.1b.
            text = f"{text[:-2]}.{text[-1]}{text[-2]}"
        if len(text) > 1 and text[-2].isdecimal() and text[-1] in "kmbt":
            text = text[:-1] + text[-1].upper()
        self.kinds.add("size_label")
        if total_params != 0:
            try:
                size = float(text[:-1]) * 1000 ** " KMBT".find(text[-1])
            except ValueError:
                size = None
            if size is not None and _is_other_size(size, total_params):
                # Probably a context length.
                self.kinds = {"finetune"}
                text = text[:-1] + text[-1].lower()
        self.text = text


def _is_other_size(size: float, total_params: int) -> bool:
    """Whether a size in a name is far from the size of the model. That of an adapter may be larger than the adapter."""
    if total_params < 0:
        return size < -total_params // 8
    return abs(size - total_params) > 7 * total_params // 8


def _find_basename(parts: list[_Part]) -> None:
    """The words at the start, and versions among them, are the base name. Other words belong to the fine-tune."""
    at_start = True
    for part in parts:
        if at_start and ((not part.kinds and part.text[0].isalpha()) or "version" in part.kinds):
            part.kinds.add("basename")
            continue
        at_start = False
        if not part.kinds:
            part.kinds.add("finetune")
    # A version at the end is that of the model.
    for part in reversed(parts):
        if "basename" not in part.kinds or len(part.kinds) == 1:
            break
        part.kinds.remove("basename")


def _apply_card(metadata: Metadata, card: dict[str, Any], total_params: int) -> None:
    def use(names: Any) -> None:
        for field, name in names:
            if name in card and getattr(metadata, field) is None:
                setattr(metadata, field, card[name])

    use(_CARD_FIELDS)
    for field, names, title in (
        ("base_models", ("base_model", "base_models", "base_model_sources"), "base model"),
        ("datasets", ("datasets", "dataset", "dataset_sources"), "dataset"),
    ):
        if (name := next((name for name in names if name in card), None)) is not None:
            sources = list(_sources(card[name], title, total_params))
            setattr(metadata, field, (getattr(metadata, field) or []) + sources)
    use((name, name) for name in _LICENSE_FIELDS)
    for field, name in _LIST_FIELDS:
        value = card.get(name)
        if value is None:
            continue
        more = [value] if isinstance(value, str) else value if isinstance(value, list) else []
        setattr(metadata, field, (getattr(metadata, field) or []) + more)


def _sources(value: Any, title: str, total_params: int) -> Iterator[dict[str, Any]]:
    """The models or datasets that a card names: by address, by identifier, or as a mapping of their own."""
    for source in [value] if isinstance(value, str) else value if isinstance(value, list) else []:
        if isinstance(source, dict):
            yield source
        elif not isinstance(source, str):
            logger.error(f"{title} entry '{source}' not in a known format")
            yield {}
        elif source.startswith(("http://", "https://", "ssh://")):
            match = re.match(r"https?://huggingface.co/([^/]+/[^/]+)$", source)
            yield {"repo_url": source} | (_facts_of_id(match.group(1), total_params) if match else {})
        else:
            facts = _facts_of_id(source, total_params)
            name, organization, *_ = Metadata.get_model_id_components(source, total_params)
            if organization is not None and name is not None:
                facts["repo_url"] = f"https://huggingface.co/{organization}/{name}"
            yield facts


def _facts_of_id(model_id: str, total_params: int) -> dict[str, Any]:
    name, organization, _, _, version, _ = Metadata.get_model_id_components(model_id, total_params)
    facts = {
        "name": None if name is None else Metadata.id_to_title(name),
        "organization": None if organization is None else Metadata.id_to_title(organization),
        "version": version,
    }
    return {field: value for field, value in facts.items() if value is not None}


def _apply_id(metadata: Metadata, model_id: str, total_params: int) -> None:
    name, organization, basename, finetune, version, size_label = Metadata.get_model_id_components(model_id, total_params)
    found = {
        "name": None if name is None else Metadata.id_to_title(name),
        "organization": None if organization is None else Metadata.id_to_title(organization),
        "basename": basename,
        "finetune": finetune,
        "version": version,
        "size_label": size_label,
    }
    for field, value in found.items():
        if getattr(metadata, field) is None:
            setattr(metadata, field, value)


def _add_sources(writer: gguf.GGUFWriter, kind: str, sources: list[dict]) -> None:
    getattr(writer, f"add_{kind}_count")(len(sources))
    for i, source in enumerate(sources):
        for field in "name author version organization description url doi uuid repo_url".split():
            if field in source:
                getattr(writer, f"add_{kind}_{field}")(i, source[field])
