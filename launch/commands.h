// The commands of `headrace`. Each reads its own arguments (those behind its name) and returns the
// exit code; a std::invalid_argument it throws is the user's mistake.
#pragma once

#include <string>
#include <vector>

namespace headrace {

int run_bench(const std::vector<std::string>& args);
int run_compare(const std::vector<std::string>& args);
int run_convert(const std::vector<std::string>& args);
int run_generate(const std::vector<std::string>& args);
int run_inspect(const std::vector<std::string>& args);
int run_tokenize(const std::vector<std::string>& args);

}  // namespace headrace
