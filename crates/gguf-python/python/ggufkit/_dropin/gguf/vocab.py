"""Vocabularies of checkpoints: special tokens, merges, chat templates, and the tokens themselves."""

from __future__ import annotations

import json
import logging
import os
import re
from enum import Enum
from pathlib import Path
from typing import Any, Callable, ClassVar, Iterable, Mapping, Protocol, Sequence, runtime_checkable

try:
    from sentencepiece import SentencePieceProcessor
except ImportError:
    SentencePieceProcessor: Any = None

try:
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer
    from mistral_common.tokens.tokenizers.sentencepiece import SentencePieceTokenizer
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer
    from mistral_common.tokens.tokenizers.utils import _filter_valid_tokenizer_files

    _mistral_common_installed = True
except ImportError:
    MistralTokenizer: Any = None
    SentencePieceTokenizer: Any = None
    Tekkenizer: Any = None
    _filter_valid_tokenizer_files: Any = None
    _mistral_common_installed = False

try:
    # Newer versions of the package have it.
    from mistral_common.tokens.tokenizers.utils import get_one_valid_tokenizer_file
except ImportError:
    get_one_valid_tokenizer_file: Any = None

import gguf

from .gguf_writer import GGUFWriter

logger = logging.getLogger(__name__)

# The space, as the byte-level vocabularies write it.
_SPACE = chr(ord(" ") + 256)


def _read_json(path: Path) -> Any:
    """A document, or `None` if the file is missing."""
    if not path.is_file():
        return None
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def _joined(pair: Sequence[str]) -> str:
    """A merge as one text, with a space between its parts and none in them."""
    return " ".join(part.replace(" ", _SPACE) for part in pair)


class SpecialVocab:
    """What a checkpoint says about its vocabulary besides the tokens."""

    merges: list[str]
    add_special_token: dict[str, bool]
    special_token_ids: dict[str, int]
    chat_template: str | Sequence[Mapping[str, str]] | None
    normalizer_lowercase: bool | None
    normalizer_strip_accents: bool | None

    def __init__(
        self, path: str | os.PathLike[str], load_merges: bool = False,
        special_token_types: Iterable[str] | None = None,
        n_vocab: int | None = None,
    ):
        self.n_vocab = n_vocab
        self.load_merges = load_merges
        self.merges = []
        self.special_token_ids = {}
        self.add_special_token = {}
        self.chat_template = None
        self.normalizer_lowercase = None
        self.normalizer_strip_accents = None
        if special_token_types is None:
            special_token_types = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
        self.special_token_types = special_token_types
        self._load(Path(path))

    def __repr__(self) -> str:
        ids = self.special_token_ids or "unset"
        add = self.add_special_token or "unset"
        return f"<SpecialVocab with {len(self.merges)} merges, special tokens {ids}, add special tokens {add}>"

    def add_to_gguf(self, gw: GGUFWriter, quiet: bool = False) -> None:
        """Add all that is known to a file."""
        log = (lambda text: None) if quiet else logger.info
        if self.merges:
            log(f"Adding {len(self.merges)} merge(s).")
            gw.add_token_merges(self.merges)
        elif self.load_merges:
            logger.warning("Adding merges requested but no merges found, output may be non-functional.")
        for typ, token in self.special_token_ids.items():
            self._add(gw, f"add_{typ}_token_id", token, f"special token type {typ}", log)
        for typ, value in self.add_special_token.items():
            self._add(gw, f"add_add_{typ}_token", value, f"add_{typ}_token", log)
        for field in ("chat_template", "normalizer_lowercase", "normalizer_strip_accents"):
            if (value := getattr(self, field)) is not None:
                self._add(gw, f"add_{field}", value, field, log)

    @staticmethod
    def _add(gw: GGUFWriter, method: str, value: Any, title: str, log: Callable[[str], None]) -> None:
        add = getattr(gw, method, None)
        if add is None:
            logger.warning(f"No handler for {title} with value {value} - skipping")
            return
        log(f"Setting {title} to {value}")
        add(value)

    def _load(self, path: Path) -> None:
        self._try_load_from_tokenizer_json(path)
        self._try_load_from_config_json(path)
        if self.load_merges and not self.merges:
            self._try_load_merges_txt(path)

    def _try_load_merges_txt(self, path: Path) -> bool:
        """`merges.txt`: a merge a line, after a comment if the first line is one."""
        file = path / "merges.txt"
        if not file.is_file():
            return False
        self.merges = []
        for number, line in enumerate(file.read_text(encoding="utf-8").split("\n"), 1):
            line = line.strip()
            if not line or (number == 1 and line.startswith("#")):
                continue
            parts = line.split(None, 3)
            if len(parts) == 2:
                self.merges.append(" ".join(parts))
            else:
                logger.warning(f"{file.name}: Line {number}: Entry malformed, ignoring")
        return True

    def _set_special_token(self, typ: str, tid: Any) -> None:
        """Set the identifier of a special token, if none is set yet."""
        if not isinstance(tid, int):
            return
        if tid < 0:
            raise ValueError(f"invalid value for special token type {typ}: {tid}")
        if self.n_vocab is not None and tid >= self.n_vocab:
            logger.warning(f"Special token type {typ}, id {tid} out of range, must be under {self.n_vocab} - skipping")
        else:
            self.special_token_ids.setdefault(typ, tid)

    def _parse_normalizer(self, normalizer: dict) -> None:
        """The flags of a normalizer, alone or in a sequence."""
        kind = normalizer.get("type")
        if kind == "Lowercase":
            self.normalizer_lowercase = True
        elif kind == "StripAccents":
            self.normalizer_strip_accents = True
        elif kind == "BertNormalizer":
            self.normalizer_lowercase = normalizer.get("lowercase", self.normalizer_lowercase)
            self.normalizer_strip_accents = normalizer.get("strip_accents", self.normalizer_strip_accents)
        elif kind == "Sequence":
            for part in normalizer.get("normalizers", []):
                self._parse_normalizer(part)

    def _try_load_from_tokenizer_json(self, path: Path) -> bool:
        """`tokenizer.json` and `tokenizer_config.json`."""
        tokenizer = _read_json(path / "tokenizer.json")
        config_file = path / "tokenizer_config.json"
        config = _read_json(config_file)
        added_tokens: Any = {}
        if tokenizer is not None:
            if self.load_merges:
                self._set_merges(tokenizer.get("model", {}).get("merges"))
            if normalizer := tokenizer.get("normalizer"):
                self._parse_normalizer(normalizer)
            added_tokens = tokenizer.get("added_tokens", {})
        if tokenizer:
            _PostProcessor(self, config).read(tokenizer.get("post_processor"))
        if not config:
            return True
        template = config.get("chat_template", _template_of(path))
        if template is None or isinstance(template, (str, list)):
            self.chat_template = template
        else:
            logger.warning(f"Bad type for chat_template field in {str(config_file)!r} - ignoring")
        for typ in self.special_token_types:
            self._read_special_token(typ, config, added_tokens)
        return True

    def _set_merges(self, merges: Any) -> None:
        if not isinstance(merges, list) or not merges:
            return
        first = merges[0]
        if isinstance(first, str):
            self.merges = merges
        elif isinstance(first, list) and len(first) == 2 and isinstance(first[0], str):
            # Pairs, whose parts may have spaces.
            if any(" " in part for pair in merges for part in pair):
                logger.warning(f"Spaces in merges detected, encoding as {_SPACE!r}")
            self.merges = [_joined(pair) for pair in merges]
        else:
            raise ValueError("Unknown tokenizer merges format")

    def _read_special_token(self, typ: str, config: dict[str, Any], added_tokens: Any) -> None:
        add = config.get(f"add_{typ}_token")
        if isinstance(add, bool) and self.add_special_token.setdefault(typ, add) != add:
            logger.warning(
                f"Mismatch between tokenizer_config add_{typ}_token({add}) and tokenizer post_processor<{typ}>"
                f"({self.add_special_token[typ]}) - opting for the latter"
            )
        text = config.get(f"{typ}_token")
        if isinstance(text, dict):
            text = text.get("content")
        if isinstance(text, str):
            found = next((token.get("id") for token in added_tokens if token.get("content") == text), None)
            self._set_special_token(typ, found)

    def _try_load_from_config_json(self, path: Path) -> bool:
        """The identifiers of special tokens in `config.json`, at its top or in that of the text model."""
        config = _read_json(path / "config.json")
        if config is None:
            return False
        for typ in self.special_token_types:
            token = config.get(f"{typ}_token_id")
            if token is None:
                token = config.get("text_config", {}).get(f"{typ}_token_id")
            self._set_special_token(typ, token)
        return True


def _template_of(path: Path) -> Any:
    """The chat template beside `tokenizer_config.json`, with the additional ones if there are any."""
    file = path / "chat_template.jinja"
    if not file.is_file():
        document = _read_json(path / "chat_template.json")
        return None if document is None else document.get("chat_template")
    template = file.read_text(encoding="utf-8")
    more = list((path / "additional_chat_templates").glob("*.jinja"))
    if not more:
        return template
    named = [("default", template), *((file.stem, file.read_text(encoding="utf-8")) for file in more)]
    return [{"name": name, "template": text} for name, text in named]


def _special_of(item: dict[str, Any]) -> str | None:
    return item.get("SpecialToken", {}).get("id")


class _PostProcessor:
    """Which special tokens the post-processors of `tokenizer.json` add.

    They may use other tokens than `tokenizer_config.json` names. The configuration then gets those of the post-processors.
    """

    def __init__(self, vocab: SpecialVocab, config: dict[str, Any] | None):
        self.vocab = vocab
        self.add = vocab.add_special_token
        self.config = config
        self.tokens = {typ: (config or {}).get(f"{typ}_token") for typ in ("bos", "cls", "eos", "sep")}

    def set(self, typ: str, token: Any) -> None:
        self.tokens[typ] = token
        self._configure(typ, token)

    def _configure(self, typ: str, token: Any) -> None:
        if self.config:
            self.config[f"{typ}_token"] = token

    def read(self, post_processor: dict[str, Any] | None) -> None:
        if self.config:
            for typ, other in (("bos", "cls"), ("eos", "sep")):
                if not self.tokens[typ] and self.tokens[other]:
                    self.set(typ, self.tokens[other])
        if not post_processor:
            return
        for processor in post_processor.get("processors", [post_processor]):
            kind = processor.get("type")
            if kind == "ByteLevel":
                self.add.setdefault("bos", False)
                self.add.setdefault("eos", False)
            elif kind == "RobertaProcessing":
                self._read_roberta(processor)
            elif kind == "TemplateProcessing":
                first, last = self._read_single(processor.get("single", []))
                if pair := processor.get("pair", []):
                    self._read_pair(pair, first, last)

    def _read_roberta(self, processor: dict[str, Any]) -> None:
        self.add.update(bos=True, eos=True, sep=True)
        for typ, other in (("cls", "bos"), ("sep", "eos")):
            if self.config and not self.tokens[typ]:
                self.set(typ, processor.get(typ, [self.tokens[other]])[0])

    def _read_single(self, template: list[dict[str, Any]]) -> tuple[str | None, str | None]:
        """The tokens at the start and at the end of a text."""
        if len(template) < 2:
            return None, None
        tokens = self.tokens
        if first := _special_of(template[0]):
            if not self.config:
                tokens["bos"] = first
            elif first not in (tokens["bos"], tokens["cls"]):
                for typ in ("bos", "cls"):
                    if not tokens[typ]:
                        self.set(typ, first)
            self.add["bos"] = first in (tokens["bos"], tokens["cls"])
            if not self.add["bos"]:
                logger.warning(f"Unknown leading special token {first!r} in TemplateProcessing<single>")
        if last := _special_of(template[-1]):
            if self.config and last != tokens["eos"]:
                self._keep_eos(last)
            self.set("eos", last)
            self.add["eos"] = True
        return first, last

    def _keep_eos(self, last: str) -> None:
        """The end of sequence of the configuration becomes the end of turn, or of message."""
        vocab, eos = self.vocab, self.tokens["eos"]
        typ = next((typ for typ in ("eot", "eom") if typ not in vocab.special_token_types), None)
        if typ is None:
            logger.warning(f"Overriding EOS token {eos!r} with {last!r} without EOT/EOM fallback!")
        else:
            vocab.special_token_types = (*vocab.special_token_types, typ)
            self._configure(typ, eos)

    def _read_pair(self, template: list[dict[str, Any]], first: str | None, last: str | None) -> None:
        """The separator between two texts."""

        def warn(text: str) -> None:
            logger.warning(f"{text} in TemplateProcessing<pair>")

        start = bool(first) and _special_of(template[0]) == first
        stop = bool(last) and _special_of(template[-1]) == last
        if (first and not start) or (last and not stop):
            logger.warning("TemplateProcessing<single> leading/trailing special tokens do not match TemplateProcessing<pair>")
        template = template[1 if start else 0:-1 if stop else None]
        if not template:
            return
        texts = tuple(item.get("Sequence", {}).get("id") for item in (template[0], template[-1]))
        if texts != ("A", "B"):
            return warn(f"Unknown sequence {texts[0]}...{texts[1]}")
        between = template[1:-1]
        if not between:
            return
        separators = (self.tokens["sep"], self.tokens["eos"])
        add = False
        for i, (item, ordinal) in enumerate(zip(between, ("", "second "))):
            # The first of two may also be the end of the first text.
            if i == 1 and len(between) != 2:
                break
            token = _special_of(item)
            if token in separators and token:
                add = add or i == 1 or not last
            elif token:
                warn(f"Unknown {ordinal}separator token {token!r}")
            else:
                warn(f"Unknown {ordinal}middle sequence {item!r}")
        self.add["sep"] = add
        if add and not self.tokens["sep"]:
            self._configure("sep", self.tokens["eos"])


@runtime_checkable
class BaseVocab(Protocol):
    tokenizer_model: ClassVar[str]
    name: ClassVar[str]


@runtime_checkable
class Vocab(BaseVocab, Protocol):
    vocab_size: int
    added_tokens_dict: dict[str, int]
    added_tokens_list: list[str]
    fname_tokenizer: Path

    def __init__(self, base_path: Path): ...
    def all_tokens(self) -> Iterable[tuple[bytes, float, gguf.TokenType]]: ...


class NoVocab(BaseVocab):
    tokenizer_model = "no_vocab"
    name = "no_vocab"

    def __repr__(self) -> str:
        return "<NoVocab for a model without integrated vocabulary>"


_Token = tuple[bytes, float, "gguf.TokenType"]

# The score of tokens that the vocabulary gives none.
_NO_SCORE = -1000.0


class BpeVocab(Vocab):
    """The vocabulary of a byte-level tokenizer: `vocab.json` with `added_tokens.json`, or `tokenizer.json`."""

    tokenizer_model = "gpt2"
    name = "bpe"

    def __init__(self, base_path: Path):
        self.fname_tokenizer = base_path / "vocab.json"
        if self.fname_tokenizer.exists():
            self.vocab = _read_json(self.fname_tokenizer)
            added = _read_json(base_path / "added_tokens.json") or {}
        else:
            self.fname_tokenizer = base_path / "tokenizer.json"
            tokenizer = json.loads(self.fname_tokenizer.read_text(encoding="utf-8"))
            model: dict[str, Any] = tokenizer["model"]
            if model["type"] != "BPE" or model.get("byte_fallback", False) or tokenizer["decoder"]["type"] != "ByteLevel":
                raise FileNotFoundError("Cannot find GPT-2 BPE tokenizer")
            self.vocab = model["vocab"]
            # Some added tokens are in the vocabulary, too.
            tokens = tokenizer.get("added_tokens") or []
            added = {token["content"]: token["id"] for token in tokens if token["content"] not in self.vocab}
        self.vocab_size_base = len(self.vocab)
        self.vocab_size = self.vocab_size_base + len(added)
        found = sorted(added.values())
        if found != list(range(self.vocab_size_base, self.vocab_size)):
            raise ValueError(
                f"Expected the {len(found)} added token ID(s) to be sequential in the range "
                f"{self.vocab_size_base} - {self.vocab_size - 1}; got {found}"
            )
        self.added_tokens_dict = added
        self.added_tokens_list = sorted(added, key=added.__getitem__)

    def bpe_tokens(self) -> Iterable[_Token]:
        texts = {number: text for text, number in self.vocab.items()}
        for number in range(len(self.vocab)):
            yield texts[number], 0.0, gguf.TokenType.NORMAL

    def added_tokens(self) -> Iterable[_Token]:
        for text in self.added_tokens_list:
            yield text.encode("utf-8"), _NO_SCORE, gguf.TokenType.CONTROL

    def all_tokens(self) -> Iterable[_Token]:
        yield from self.bpe_tokens()
        yield from self.added_tokens()

    def __repr__(self) -> str:
        return f"<BpeVocab with {self.vocab_size_base} base tokens and {len(self.added_tokens_list)} added tokens>"


def _sentencepiece_token(model: Any, token: int) -> _Token:
    """A token of a SentencePiece model. Of several kinds that apply, the last counts."""
    kind = gguf.TokenType.NORMAL
    for applies, other in (
        (model.IsUnknown, gguf.TokenType.UNKNOWN),
        (model.IsControl, gguf.TokenType.CONTROL),
        (model.IsUnused, gguf.TokenType.UNUSED),
        (model.IsByte, gguf.TokenType.BYTE),
    ):
        if applies(token):
            kind = other
    return model.IdToPiece(token).encode("utf-8"), model.GetScore(token), kind


class SentencePieceVocab(Vocab):
    """The vocabulary of `tokenizer.model`, in the folder or the one above, with `added_tokens.json`."""

    tokenizer_model = "llama"
    name = "spm"

    def __init__(self, base_path: Path):
        if SentencePieceProcessor is None:
            raise RuntimeError("sentencepiece is not installed")
        added: dict[str, int] = {}
        self.fname_tokenizer = base_path / "tokenizer.model"
        if self.fname_tokenizer.exists():
            added = _read_json(base_path / "added_tokens.json") or {}
        else:
            self.fname_tokenizer = base_path.parent / "tokenizer.model"
            if not self.fname_tokenizer.exists():
                raise FileNotFoundError("Cannot find tokenizer.model")
        self.sentencepiece_tokenizer = SentencePieceProcessor()
        self.sentencepiece_tokenizer.LoadFromFile(str(self.fname_tokenizer))
        self.vocab_size_base = self.sentencepiece_tokenizer.vocab_size()
        new = {token: text for text, token in added.items() if token >= self.vocab_size_base}
        expected = list(range(self.vocab_size_base, self.vocab_size_base + len(new)))
        if sorted(new) != expected:
            raise ValueError(f"Expected new token IDs {expected} to be sequential; got {sorted(new)}")
        self.added_tokens_dict = added
        self.added_tokens_list = [new[token] for token in expected]
        self.vocab_size = self.vocab_size_base + len(new)

    def sentencepiece_tokens(self) -> Iterable[_Token]:
        model = self.sentencepiece_tokenizer
        for token in range(model.vocab_size()):
            yield _sentencepiece_token(model, token)

    def added_tokens(self) -> Iterable[_Token]:
        for text in self.added_tokens_list:
            yield text.encode("utf-8"), _NO_SCORE, gguf.TokenType.USER_DEFINED

    def all_tokens(self) -> Iterable[_Token]:
        yield from self.sentencepiece_tokens()
        yield from self.added_tokens()

    def __repr__(self) -> str:
        return f"<SentencePieceVocab with {self.vocab_size_base} base tokens and {len(self.added_tokens_list)} added tokens>"


class LlamaHfVocab(Vocab):
    """The vocabulary of a `tokenizer.json` with byte fallback, read by transformers."""

    tokenizer_model = "llama"
    name = "hfft"

    def __init__(self, base_path: Path):
        self.fname_tokenizer = base_path / "tokenizer.json"
        tokenizer = json.loads(self.fname_tokenizer.read_text(encoding="utf-8"))
        model: dict[str, Any] = tokenizer["model"]
        is_bpe = model["type"] == "BPE"
        if is_bpe and model.get("ignore_merges", False) and not model.get("byte_fallback", True):
            raise TypeError("Llama 3 must be converted with BpeVocab")
        if not is_bpe or not model.get("byte_fallback", False) or tokenizer["decoder"]["type"] != "Sequence":
            raise FileNotFoundError("Cannot find Llama BPE tokenizer")
        try:
            from transformers import AutoTokenizer
        except ImportError as error:
            raise ImportError(
                "To use LlamaHfVocab, please install the `transformers` package. You can install it with `pip install transformers`."
            ) from error
        self.tokenizer: Any = AutoTokenizer.from_pretrained(base_path, cache_dir=base_path, local_files_only=True)
        assert self.tokenizer.is_fast
        self.vocab_size_base = self.tokenizer.vocab_size
        added = sorted(self.tokenizer.get_added_vocab().items(), key=lambda item: item[1])
        self.added_tokens_dict = {text: token for text, token in added if token >= self.vocab_size_base}
        self.added_tokens_list = list(self.added_tokens_dict)
        self.added_tokens_ids = set(self.added_tokens_dict.values())
        tokens = self.tokenizer.get_vocab()
        self.specials = {text: tokens[text] for text in self.tokenizer.all_special_tokens}
        self.special_ids = set(self.tokenizer.all_special_ids)
        self.vocab_size = self.vocab_size_base + len(self.added_tokens_list)

    def hf_tokens(self) -> Iterable[_Token]:
        texts = {token: text for text, token in self.tokenizer.get_vocab().items()}
        for token in range(self.vocab_size_base):
            if token not in self.added_tokens_ids:
                text = texts[token].encode("utf-8")
                yield text, self.get_token_score(token), self.get_token_type(token, text, self.special_ids)

    def get_token_type(self, token_id: int, token_text: bytes, special_ids: set[int]) -> gguf.TokenType:
        if re.fullmatch(rb"<0x[0-9A-Fa-f]{2}>", token_text):
            return gguf.TokenType.BYTE
        return gguf.TokenType.CONTROL if token_id in special_ids else gguf.TokenType.NORMAL

    def get_token_score(self, token_id: int) -> float:
        return _NO_SCORE

    def added_tokens(self) -> Iterable[_Token]:
        for text in self.added_tokens_list:
            kind, score = gguf.TokenType.USER_DEFINED, _NO_SCORE
            if (token := self.specials.get(text)) is not None:
                kind, score = self.get_token_type(token, b"", self.special_ids), self.get_token_score(token)
            yield text.encode("utf-8"), score, kind

    def has_newline_token(self):
        return "<0x0A>" in self.tokenizer.vocab or "\n" in self.tokenizer.vocab

    def all_tokens(self) -> Iterable[_Token]:
        yield from self.hf_tokens()
        yield from self.added_tokens()

    def __repr__(self) -> str:
        return f"<LlamaHfVocab with {self.vocab_size_base} base tokens and {len(self.added_tokens_list)} added tokens>"


class MistralTokenizerType(str, Enum):
    spm = "spm"
    tekken = "tekken"


def bytes_to_unicode() -> dict[int, str]:
    """The character for each byte in byte-level vocabularies: itself if it is printable, otherwise one from U+0100 on."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(others)}


class MistralVocab(Vocab):
    """The vocabulary of a tokenizer that mistral-common reads: `tekken.json`, or a SentencePiece model."""

    tokenizer_model = "mistral"
    name = "mistral"

    added_tokens_dict: dict[str, int] = {}
    added_tokens_list: list[str] = []

    def __init__(self, base_path: Path):
        if not _mistral_common_installed:
            raise ImportError(
                "To use MistralVocab, please install the `mistral-common` package. You can install it with `pip install mistral-common`."
            )
        logger.info(f"Loading Mistral tokenizer from {base_path}")
        self.fname_tokenizer = self._find(base_path)
        self.tokenizer: Any = MistralTokenizer.from_file(self.fname_tokenizer).instruct_tokenizer.tokenizer
        is_tekken = isinstance(self.tokenizer, Tekkenizer)
        self.tokenizer_type = MistralTokenizerType.tekken if is_tekken else MistralTokenizerType.spm
        self.vocab_size = self.tokenizer.n_words
        self._name = f"mistral-{self.tokenizer_type.value}-{self.tokenizer.version}"

    @staticmethod
    def _find(base_path: Path) -> Any:
        files = [file.as_posix() for file in base_path.glob("**/*") if file.is_file()]
        if get_one_valid_tokenizer_file is not None:
            return get_one_valid_tokenizer_file(files)
        valid = _filter_valid_tokenizer_files(files)
        if not valid:
            raise ValueError(f"No tokenizer file found in the directory: {base_path}")
        file = "tekken.json" if "tekken.json" in valid else max(valid)
        if len(valid) > 1:
            logger.warning(f"Multiple tokenizer files found in {base_path}. Using {file}")
        return base_path / file

    @property
    def tokenizer_name(self) -> str:
        return self._name

    @property
    def gguf_tokenizer_model(self) -> str:
        return "llama" if self.tokenizer_type == MistralTokenizerType.spm else "gpt2"

    def _sentencepiece_tokens(self) -> Iterable[_Token]:
        model = self.tokenizer._model
        for token in range(model.vocab_size()):
            yield _sentencepiece_token(model, token)

    def _tekken_tokens(self) -> Iterable[_Token]:
        characters = bytes_to_unicode()
        for token in range(self.tokenizer.num_special_tokens):
            yield self.tokenizer.id_to_piece(token).encode("utf-8"), 0, gguf.TokenType.CONTROL
        for text in self.tokenizer._tekken_token2id_nospecial:
            yield self.token_bytes_to_string(text, characters).encode("utf-8"), 0, gguf.TokenType.NORMAL

    def get_token_id(self, token: str) -> int:
        first = self.tokenizer.num_special_tokens if self.tokenizer_type == MistralTokenizerType.tekken else 0
        return self.tokenizer._vocab.index(token) + first

    @property
    def bos_id(self) -> int:
        return self.tokenizer.bos_id

    @property
    def eos_id(self) -> int:
        return self.tokenizer.eos_id

    @property
    def pad_id(self) -> int:
        return self.eos_id if self.tokenizer.pad_id == -1 else self.tokenizer.pad_id

    @property
    def unk_id(self) -> int:
        return self.tokenizer.unk_id

    @property
    def bos_token(self) -> str:
        return self.tokenizer.id_to_piece(self.tokenizer.bos_id)

    @property
    def eos_token(self) -> str:
        return self.tokenizer.id_to_piece(self.tokenizer.eos_id)

    @property
    def pad_token(self) -> str:
        return self.tokenizer.id_to_piece(self.tokenizer.pad_id)

    @property
    def unk_token(self) -> str:
        return self.tokenizer.id_to_piece(self.tokenizer.unk_id)

    def all_tokens(self) -> Iterable[_Token]:
        is_tekken = self.tokenizer_type == MistralTokenizerType.tekken
        yield from self._tekken_tokens() if is_tekken else self._sentencepiece_tokens()

    @staticmethod
    def token_bytes_to_string(b, byte_encoder):
        return "".join(byte_encoder[byte] for byte in b)

    def extract_vocab_merges_from_model(self):
        """The merges of a tekken vocabulary, which lists only tokens: all ways to cut a token in two tokens, by rank."""
        ranks = self.tokenizer._model._mergeable_ranks
        texts = {rank: text for text, rank in ranks.items()}
        characters = bytes_to_unicode()
        merges = []
        for rank in range(256, self.vocab_size - self.tokenizer.num_special_tokens):
            text = texts[rank]
            cuts = [(text[:i], text[i:]) for i in range(1, len(text))]
            cuts = [cut for cut in cuts if cut[0] in ranks and cut[1] in ranks]
            if not cuts:
                raise ValueError(f"Could not find valid merge for token at rank {rank}: {text.decode('latin-1')}")
            cuts.sort(key=lambda cut: (ranks[cut[0]], ranks[cut[1]]))
            merges += [_joined([self.token_bytes_to_string(part, characters) for part in cut]) for cut in cuts]
        return merges
