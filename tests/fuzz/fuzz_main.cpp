// headrace_fuzz TARGET COUNT SEED DIRECTORY: so many mutations of one target. Prints how many were
// taken and refused, and exits with 1 where it finds something. The input that a target has at hand
// stands in DIRECTORY/TARGET.input, also after a crash; TARGET FILE runs the target on it alone.
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_run.h"
#include "tests/model/checkpoint/model_files.h"

namespace {

using namespace headrace;  // NOLINT(google-build-using-namespace): the program is about it

int run_campaign(const std::vector<std::string>& arguments) {
  const FuzzTarget target = make_fuzz_target(arguments[0]);
  const std::filesystem::path input =
      std::filesystem::path(arguments[3]) / (target.name + ".input");
  const FuzzOutcome outcome = run_fuzz(target, {.count = std::stoll(arguments[1]),
                                                .seed = std::stoull(arguments[2]),
                                                .before = [&input](const std::string& bytes) {
                                                  std::ofstream(input, std::ios::binary) << bytes;
                                                }});
  if (outcome.finding) {
    std::cout << "mutation " << outcome.finding->mutation << ": " << outcome.finding->what << "\n";
    return 1;
  }
  std::cout << "taken " << outcome.accepted << " refused " << outcome.refused << "\n";
  return 0;
}

int run_file(const std::vector<std::string>& arguments) {
  const FuzzTarget target = make_fuzz_target(arguments[0]);
  const bool accepted = target.accepts(model_files::read_file(arguments[1]));
  std::cout << (accepted ? "taken\n" : "refused\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    if (arguments.size() == 4) return run_campaign(arguments);
    if (arguments.size() == 2) return run_file(arguments);
    if (arguments.empty()) {
      for (const std::string& name : fuzz_target_names()) std::cout << name << "\n";
      return 0;
    }
    std::cerr << "usage: headrace_fuzz [TARGET COUNT SEED DIRECTORY | TARGET FILE]\n";
  } catch (const std::exception& error) {
    std::cerr << "headrace_fuzz: " << error.what() << "\n";
  }
  return 2;
}
