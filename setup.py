"""Builds the compiled record kernel where a C compiler is at hand; without one, its pure Python twin serves."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "penstock.records._kernel",
            ["src/penstock/records/_kernel.pyx"],
            extra_compile_args=["-O3"],
            optional=True,
        )
    ]
)
