"""A drop-in for the package `gguf` of llama.cpp, with the parts that take time in Rust.

The modules have the names, classes and private parts of the original; see `docs/python-dropin.md` for what differs.
"""

from .constants import *
from .lazy import *
from .gguf_reader import *
from .gguf_writer import *
from .quants import *
from .tensor_mapping import *
from .vocab import *
from .utility import *
from .metadata import *
