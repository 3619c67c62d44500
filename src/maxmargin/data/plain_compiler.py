"""Numba's compiler without the passes that a plain loop has no use for.

A plain loop reads and writes arrays that belong to its caller. It makes no array, has no closure, and none of its variables
changes its type: an index is signed or unsigned, not both in turn. Numba's passes for all of that look at every statement of
the loop all the same, which took a third of the time of a compilation. A loop that is not plain does not compile without them,
because the later passes do not know what these passes translate.
"""

from __future__ import annotations

from typing import Any

from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import PassManager

NEEDLESS = {
    # expressions of whole arrays, elements of tuples of several types by their number
    "nopython_rewrites",
    "generic_rewrites",
    # arguments that are None
    "rewrite_semantic_constants",
    "dead_branch_prune",
    # functions inside the function
    "inline_closure_likes",
    # where the life of a variable ends, for the counting of references
    "ir_legalization",
    # variables of several types
    "reconstruct_ssa",
    "strip_phis",
}
"""The passes that are left out, by Numba's names for them. A name that a version of Numba does not know leaves nothing out."""


class PlainCompiler(CompilerBase):
    """Compiles plain loops: ``pipeline_class`` of ``numba.njit``."""

    def define_pipelines(self) -> list[Any]:
        self.state.flags.enable_ssa = False
        passes = PassManager("plain loop")
        for each, description in DefaultPassBuilder.define_nopython_pipeline(self.state).passes:
            if each.name() not in NEEDLESS:
                passes.add_pass(each, description)
        passes.finalize()
        return [passes]
