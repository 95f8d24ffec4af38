// What this program is made of: the text of `headrace --version`.
#pragma once

#include <string>

namespace headrace {

/// "headrace 1.2.3".
std::string program_version();

/// Several lines. Does not initialise MPI.
std::string version_text();

}  // namespace headrace
