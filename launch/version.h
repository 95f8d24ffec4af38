// What this program is made of: the text of `headrace --version`.
#pragma once

#include <string>

namespace headrace {

/// Several lines. Does not initialise MPI.
std::string version_text();

}  // namespace headrace
