// The program `headrace`: finds the command, runs it, and turns its errors into exit codes.
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <exception>
#include <iostream>
#include <stdexcept>

#include "launch/commands.h"
#include "launch/exit_codes.h"
#include "launch/option_values.h"
#include "launch/version.h"

namespace headrace {
namespace {

/// Who turns a command's exceptions into an exit code.
enum class Errors {
  kReturned,   // main: the stack unwinds and the process ends
  kTerminate,  // the terminate handler that the command installs: a rank that fails must end the
               // whole job at the throw, before a destructor could wait for another rank
};

struct Command {
  std::string_view name;
  std::string_view summary;
  int (*run)(const std::vector<std::string>& args);
  Errors errors = Errors::kReturned;
};

constexpr std::array kCommands = {
    Command{"generate", "run a file of requests; start it with mpirun or srun, or alone",
            run_generate, Errors::kTerminate},
    Command{"convert", "write a model as an HDF5 checkpoint, or one as safetensors", run_convert},
    Command{"inspect", "name what a model, output or request file is, and whether it is sound",
            run_inspect},
    Command{"tokenize", "turn text into token ids and back, or apply a chat template",
            run_tokenize},
    Command{"compare", "compare two outputs: missing ids, first differing token, log-probs, speed",
            run_compare},
    Command{"bench", "measure a model's operators, or where the time of a short job goes",
            run_bench, Errors::kTerminate},
};

std::string usage() {
  std::string text =
      "Usage: headrace COMMAND [options]\n"
      "Runs large language models over whole files of requests.\n\n"
      "Commands\n";
  for (const Command& c : kCommands) text += fmt::format("  {:<10} {}\n", c.name, c.summary);
  text +=
      "\nheadrace COMMAND --help lists a command's options; headrace --version says what is built "
      "in.\n"
      "Exit codes: 0 done, 1 unexpected failure, 2 usage or model error, 3 done but some requests\n"
      "failed (compare: different), 75 stopped and resumable.\n";
  return text;
}

const Command& find_command(const std::string& name) {
  std::vector<std::string> names;
  for (const Command& c : kCommands) {
    if (c.name == name) return c;
    names.emplace_back(c.name);
  }
  for (const char* option : {"--help", "--version"}) names.emplace_back(option);
  const auto meant = nearest_word(name, names);
  throw std::invalid_argument(fmt::format("unknown {} {}{} (headrace --help lists the commands)",
                                          name.starts_with("-") ? "option" : "command", name,
                                          meant ? "; did you mean " + *meant + "?" : ""));
}

/// Text that the user asked for; a full disk or a closed pipe is an error, not a success.
int flushed(int code) {
  std::cout.flush();
  if (std::cout) return code;
  throw std::runtime_error("cannot write to standard output");
}

/// nullptr where `args` is answered without a command.
const Command* answer_or_find(const std::vector<std::string>& args) {
  const std::string first = args.empty() ? "" : args[0];
  if (first == "--help" || first == "-h" || first == "help") {
    std::cout << usage();
    return nullptr;
  }
  if (first == "--version") {
    std::cout << version_text();
    return nullptr;
  }
  if (args.empty())
    throw std::invalid_argument("a command is expected (headrace --help lists them)");
  return &find_command(first);
}

int run(const std::vector<std::string>& args) {
  const Command* command = nullptr;
  try {
    command = answer_or_find(args);
    if (command == nullptr) return flushed(kExitSuccess);
    if (command->errors == Errors::kReturned) {
      return flushed(command->run({args.begin() + 1, args.end()}));
    }
  } catch (const std::invalid_argument& e) {
    std::cerr << "headrace: " << e.what() << '\n';
    return kExitUsage;
  } catch (const std::exception& e) {
    std::cerr << "headrace: " << e.what() << '\n';
    return kExitUnexpected;
  }
  return command->run({args.begin() + 1, args.end()});
}

}  // namespace
}  // namespace headrace

int main(int argc, char** argv) {
  return headrace::run({argv + 1, argv + argc});
}
