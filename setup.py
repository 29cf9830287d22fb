"""Builds the compiled units where a C compiler is at hand; without one, their pure Python twins serve."""

from setuptools import Extension, setup

RECORDS = "src/penstock/records"

setup(
    ext_modules=[
        Extension(
            f"penstock.records.{name}",
            [f"{RECORDS}/{name}.pyx"],
            depends=[f"{RECORDS}/_layout.pxd", f"{RECORDS}/crc32c_x86.h"],
            extra_compile_args=["-O3"],
            optional=True,
        )
        for name in ("_checksum", "_kernel", "_offset_map", "_writer")
    ]
    + [
        Extension(
            f"penstock.{package}.{name}",
            [f"src/penstock/{package.replace('.', '/')}/{name}.pyx"],
            extra_compile_args=["-O3"],
            optional=True,
        )
        for package, name in (("broker", "_stencils"), ("client.producer", "_front"))
    ]
)
