"""What the Worker imports before its first request: paid at each deployment, and bounded by Cloudflare's start-up CPU.

An addition is a decision. Import it where it is first used, unless every request needs it; then add it here, and see
what `python -m bench.edge` says of `global_cpu_s`.
"""

from tests.edge.rig.rig import Rig

OURS = {
    "schema": """
    errors limits models ontology sql tags
    """,
    "core": """
    apply backlog calibrating calibration_pairs caller candidates canonical cells characters context criteria
    deleting drafts erasing filters finding hydration ids indexing journal passages pausing protocols ranking
    reading remembered replication rewording rows service statements statistics stopwords storing text times
    times.calendar times.chinese times.clock times.english times.grammar times.iso8601 times.reading
    updating vectors weights
    """,
    "api": """
    arguments context cors gate messages oauth oauth.authority oauth.gate oauth.owner_key oauth.paths oauth.ports
    oauth.records oauth.secrets openapi registry rest schemas shell
    """,
    "worker": """
    background bindings budget configuration consuming d1 d1_errors edge fetching indexing issuer logs models queue
    quotas reconcile runtime serving upkeep vector_filter vector_ids vectorize vectorize_client version webcrypto
    workers_ai
    """,
}
"""Modules of each layer."""
PACKAGES = """
    annotated_doc annotated_types anyio fastapi opentelemetry pydantic pydantic_core python_multipart starlette
    typing_extensions typing_inspection
"""
"""Vendored packages; of most only a part."""
LIBRARY = """
    _blake2 _decimal _hmac _md5 _sha1 _sha2 _sha3 _sysconfigdata__emscripten_wasm32-emscripten
    _zoneinfo colorsys decimal fractions hashlib hmac html mimetypes numbers secrets shlex
    sysconfig unicodedata uuid zoneinfo
"""
"""Of the standard library, beyond"""
BARE = """
    __future__ __main__ _abc _ast _asyncio _bisect _bz2 _cloudflare _cloudflare_compat_flags _codecs
    _collections _collections_abc _colorize _contextvars _datetime _frozen_importlib _frozen_importlib_external
    _functools _heapq _imp _io _json _locale _lzma _opcode _opcode_metadata _operator _py_warnings _pyodide
    _pyodide_core _pyodide_entrypoint_helper _random _signal _sitebuiltins _socket _sre _ssl _stat _string
    _struct _thread _tokenize _types _typing _warnings _weakref _weakrefset _workers_sdk_entropy_import_context
    _workers_sdk_package_patches _workers_sdk_patch_loader _zstd abc annotationlib array ast asyncio atexit
    base64 binascii bisect builtins bz2 codecs codeop collections compression concurrent contextlib contextvars
    copy copyreg dataclasses datetime dis email encodings entry enum errno fcntl fnmatch functools gc
    genericpath glob heapq http importlib inspect io ipaddress itertools js json keyword linecache locale
    logging lzma marshal math ntpath opcode operator os pathlib posix posixpath pyodide pyodide_js quopri random
    re reprlib select selectors shutil signal site socket ssl stat string struct subprocess sys tempfile
    textwrap threading time token tokenize traceback types typing urllib warnings weakref workers zipfile
    zipimport zlib
"""
"""what any Python Worker begins with: interpreter, runtime and SDK."""
MODULES_MAX = 560
"""All modules together, those of the packages and of the library included."""


def ours() -> set[str]:
    """The names of our own modules, with the packages that they lie in."""
    modules = {f"shoal.{layer}.{name}" for layer, names in OURS.items() for name in names.split()}
    return {"shoal"} | {f"shoal.{layer}" for layer in OURS} | modules


def differences(found: set[str], listed: set[str]) -> dict[str, list[str]]:
    return {"not in the list": sorted(found - listed), "only in the list": sorted(listed - found)}


NONE = differences(set(), set())


def test_of_our_own_only_what_is_listed_is_imported_at_start(rig: Rig):
    found = {name for name in rig.modules_at_start() if name.partition(".")[0] == "shoal"}
    assert differences(found, ours()) == NONE


def test_of_others_only_packages_that_are_listed_are_imported_at_start(rig: Rig):
    found = {name.partition(".")[0] for name in rig.modules_at_start()} - {"shoal", *BARE.split()}
    assert differences(found, {*PACKAGES.split(), *LIBRARY.split()}) == NONE


def test_the_modules_at_start_stay_few(rig: Rig):
    assert len(rig.modules_at_start()) <= MODULES_MAX
