"""The Python of the engine `monty` 1.4: its modules, their names, the builtins it lacks.

Found by asking the engine for each name of the standard library; a test asks again, so that an
upgrade that knows more or less is noticed.
"""

from __future__ import annotations

from collections.abc import Mapping

_MODULES = {
    "asyncio": "gather run sleep",
    "base64": (
        "MAXBINSIZE MAXLINESIZE a85decode a85encode b16decode b16encode b32decode "
        "b32encode b32hexdecode b32hexencode b64decode b64encode b85decode b85encode "
        "decodebytes encodebytes standard_b64decode standard_b64encode urlsafe_b64decode "
        "urlsafe_b64encode z85decode z85encode"
    ),
    "binascii": (
        "Error Incomplete a2b_base64 a2b_hex a2b_qp a2b_uu b2a_base64 b2a_hex b2a_qp "
        "b2a_uu crc32 crc_hqx hexlify unhexlify"
    ),
    "bisect": "bisect bisect_left bisect_right insort insort_left insort_right",
    "collections": "Counter defaultdict deque namedtuple",
    "copy": "copy deepcopy",
    "csv": (
        "Dialect DictReader DictWriter Error QUOTE_ALL QUOTE_MINIMAL QUOTE_NONE "
        "QUOTE_NONNUMERIC QUOTE_NOTNULL QUOTE_STRINGS excel excel_tab field_size_limit "
        "get_dialect list_dialects reader unix_dialect writer"
    ),
    "dataclasses": "FrozenInstanceError MISSING dataclass field is_dataclass",
    "datetime": "date datetime time timedelta timezone",
    "decimal": (
        "BasicContext Clamped Context ConversionSyntax Decimal DecimalException "
        "DecimalTuple DefaultContext DivisionByZero DivisionImpossible DivisionUndefined "
        "ExtendedContext FloatOperation HAVE_CONTEXTVAR HAVE_THREADS IEEEContext Inexact "
        "InvalidContext InvalidOperation MAX_EMAX MAX_PREC MIN_EMIN MIN_ETINY Overflow "
        "ROUND_05UP ROUND_CEILING ROUND_DOWN ROUND_FLOOR ROUND_HALF_DOWN ROUND_HALF_EVEN "
        "ROUND_HALF_UP ROUND_UP Rounded Subnormal Underflow getcontext localcontext "
        "setcontext"
    ),
    "functools": "cache lru_cache partial reduce",
    "hashlib": (
        "algorithms_available algorithms_guaranteed blake2b blake2s md5 new pbkdf2_hmac "
        "sha1 sha224 sha256 sha384 sha3_224 sha3_256 sha3_384 sha3_512 sha512 shake_128 "
        "shake_256"
    ),
    "itertools": (
        "accumulate batched chain combinations combinations_with_replacement compress "
        "count cycle dropwhile filterfalse groupby islice pairwise permutations product "
        "repeat starmap takewhile tee zip_longest"
    ),
    "json": "JSONDecodeError dump dumps load loads",
    "math": (
        "acos acosh asin asinh atan atan2 atanh cbrt ceil comb copysign cos cosh degrees "
        "dist e erf erfc exp exp2 expm1 fabs factorial floor fma fmod frexp fsum gamma "
        "gcd hypot inf isclose isfinite isinf isnan isqrt lcm ldexp lgamma log log10 "
        "log1p log2 modf nan nextafter perm pi pow prod radians remainder sin sinh sqrt "
        "sumprod tan tanh tau trunc ulp"
    ),
    "os": (
        "altsep chdir curdir defpath devnull environ extsep fspath getcwd getcwdb getenv "
        "linesep listdir makedirs mkdir name pardir path pathsep remove rename replace "
        "rmdir scandir sep stat unlink urandom walk"
    ),
    "os.path": (
        "abspath altsep basename commonpath commonprefix curdir defpath devnull dirname "
        "exists expanduser expandvars extsep getatime getctime getmtime getsize isabs "
        "isdevdrive isdir isfile isjunction islink ismount join lexists normcase normpath "
        "pardir pathsep realpath relpath samefile samestat sep split splitdrive splitext "
        "splitroot supports_unicode_filenames"
    ),
    "pathlib": "Path",
    "posixpath": (
        "abspath altsep basename commonpath commonprefix curdir defpath devnull dirname "
        "exists expanduser expandvars extsep getatime getctime getmtime getsize isabs "
        "isdevdrive isdir isfile isjunction islink ismount join lexists normcase normpath "
        "pardir pathsep realpath relpath samefile samestat sep split splitdrive splitext "
        "splitroot supports_unicode_filenames"
    ),
    "random": (
        "Random betavariate binomialvariate choice choices expovariate gammavariate gauss "
        "getrandbits getstate lognormvariate normalvariate paretovariate randbytes "
        "randint random randrange sample seed setstate shuffle triangular uniform "
        "vonmisesvariate weibullvariate"
    ),
    "re": (
        "A ASCII DOTALL I IGNORECASE M MULTILINE Match NOFLAG Pattern PatternError S "
        "compile error escape findall finditer fullmatch match search split sub"
    ),
    "sys": (
        "abiflags api_version argv base_exec_prefix base_prefix builtin_module_names "
        "byteorder copyright dont_write_bytecode exec_prefix executable flags float_info "
        "float_repr_style hexversion maxsize maxunicode platform platlibdir prefix "
        "pycache_prefix stderr stdout version version_info"
    ),
    "time": (
        "altzone asctime ctime daylight gmtime localtime mktime monotonic monotonic_ns "
        "perf_counter perf_counter_ns process_time process_time_ns sleep strftime "
        "strptime thread_time thread_time_ns time time_ns timezone tzname"
    ),
    "tomllib": "TOMLDecodeError load loads",
    "typing": (
        "Annotated Any Callable ClassVar Dict Final FrozenSet Generator Generic Iterable "
        "Iterator List Literal Mapping Never NoReturn Optional Protocol Self Sequence Set "
        "TYPE_CHECKING Tuple Type TypeVar Union"
    ),
    "unicodedata": "category combining is_normalized lookup name normalize unidata_version",
}

MODULES: Mapping[str, frozenset[str]] = {
    name: frozenset(names.split()) for name, names in _MODULES.items()
}
"""Each module that a program may import, and the names in it."""

_MISSING = (
    "BaseExceptionGroup BlockingIOError BrokenPipeError BufferError BytesWarning "
    "ChildProcessError ConnectionAbortedError ConnectionError ConnectionRefusedError "
    "ConnectionResetError DeprecationWarning EOFError EncodingWarning "
    "EnvironmentError ExceptionGroup FloatingPointError FutureWarning GeneratorExit "
    "IOError ImportWarning IndentationError InterruptedError "
    "PendingDeprecationWarning ProcessLookupError ReferenceError ResourceWarning "
    "RuntimeWarning StopAsyncIteration SyntaxWarning SystemError TabError "
    "UnicodeError UnicodeTranslateError UnicodeWarning UserWarning Warning __import__ "
    "aiter anext ascii breakpoint bytearray callable classmethod compile copyright "
    "credits delattr dir globals help issubclass license memoryview staticmethod "
    "super vars"
)

MISSING_BUILTINS = frozenset(_MISSING.split())
"""Builtins of Python that the engine lacks and that are not provided beside it."""
