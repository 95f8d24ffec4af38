// What happens when something goes wrong on a rank of a running job: the cause is printed and the
// whole world ends at once. Installed as terminate handler, so that no destructor runs first: one
// that waited for another rank would turn a failure into a hang.
#pragma once

#include <string>

namespace headrace {

/// Names this process in messages: "rank 1 (stage 1, host a)". From here on an exception that
/// nobody catches prints "headrace: NAME: what" and calls MPI_Abort with 2 for
/// std::invalid_argument, else 1. After MPI_Init, once; again to change the name.
void install_guard(const std::string& name);

}  // namespace headrace
