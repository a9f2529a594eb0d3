"""Asking before something that cannot be undone."""

from __future__ import annotations

import logging
import sys


def ask(logger: logging.Logger, *warnings: str) -> None:
    """Log the warnings and ask; ends the program unless the answer is YES."""
    logger.warning("*** Warning *** Warning *** Warning **")
    for warning in warnings:
        logger.warning(f"* {warning}")
    logger.warning("* Enter exactly YES if you are positive you want to proceed:")
    if input("YES, I am sure> ") != "YES":
        logger.info("You didn't enter YES. Okay then, see ya!")
        sys.exit(0)
