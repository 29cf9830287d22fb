"""Builds the compiled units where a C compiler is at hand; without one, their pure Python twins serve.

LEVADA_PURE=1 leaves them out, for a package that is the same on every machine.
"""

import os
from glob import glob

from setuptools import Extension, setup

RECORDS = "src/levada/records"
IS_PURE = os.environ.get("LEVADA_PURE", "0") not in ("", "0")

COMPILED = [
    Extension(
        f"levada.records.{name}",
        [f"{RECORDS}/{name}.pyx"],
        depends=[f"{RECORDS}/_layout.pxd", f"{RECORDS}/crc32c_x86.h", *sorted(glob(f"{RECORDS}/{name}_*.pxi"))],
        extra_compile_args=["-O3"],
        optional=True,
    )
    for name in ("_checksum", "_kernel", "_offset_map", "_writer")
] + [
    Extension(
        f"levada.{package}.{name}",
        [f"src/levada/{package.replace('.', '/')}/{name}.pyx"],
        extra_compile_args=["-O3"],
        optional=True,
    )
    for package, name in (("broker", "_request_templates"), ("client.producer", "_front"))
]

setup(ext_modules=[] if IS_PURE else COMPILED)
