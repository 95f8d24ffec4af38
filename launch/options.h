// The options of one command: declared once, read into a plain struct. A declaration names the
// option, its value, its help and the variable it fills; the variable's value at that moment is the
// default.
//
//   CompareOptions o;
//   OptionSet options({.command = "compare", .synopsis = "A B", .summary = "Compares two
//   outputs."}); options.group("Comparison"); options.add({.name = "tolerance", .value = "X", .help
//   = "largest distance"}, o.tolerance, {0, 1}); options.positional({.names = "A B", .min = 2, .max
//   = 2}, o.files); if (!options.parse(args)) return print(options.help());
//
// --a-b and --a_b are the same option, no name may be shortened, and --config FILE reads
// `name = value` lines with the same names, which the command line overrides.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "launch/option_values.h"

namespace headrace {

class OptionSet {
 public:
  struct About {
    std::string command;
    std::string synopsis = {};  // the part of the usage line between the command and [options]
    std::string summary = {};   // one or two sentences
  };

  struct Option {
    std::string name;           // without dashes: "pipeline-parallel-size"
    std::string value = {};     // placeholder in the help: "N"; empty for a flag
    std::string help;           // what it does, one line
    std::string fallback = {};  // what happens without it, where that is not the variable's value
    std::string alias = {};     // single-dash spelling: "pp" for -pp
    bool required = false;
  };

  struct Positional {
    std::string names;  // as the synopsis calls them
    int min = 0;
    int max = std::numeric_limits<int>::max();
  };

  explicit OptionSet(About about);
  OptionSet(const OptionSet&) = delete;  // holds references to the command's variables
  OptionSet& operator=(const OptionSet&) = delete;

  /// Options declared from here on stand under this title in the help.
  void group(std::string title);

  /// A flag: no value on the command line, true or false in a configuration file.
  void add(Option option, bool& target);
  void add(Option option, std::string& target);
  void add(Option option, std::optional<std::string>& target);
  /// May be repeated and takes several values: --input a b --input c.
  void add(Option option, std::vector<std::string>& target);
  void add(Option option, int& target, IntRange range);
  void add(Option option, std::int64_t& target, IntRange range);
  void add(Option option, std::optional<int>& target, IntRange range);
  void add(Option option, std::optional<std::int64_t>& target, IntRange range);
  /// Comma-separated: --layers 19,11.
  void add(Option option, std::vector<int>& target, IntRange each);
  void add(Option option, double& target, RealRange range);
  void add(Option option, std::optional<double>& target, RealRange range);
  void add(Option option, ByteSize& target);
  void add(Option option, std::optional<ByteSize>& target);
  /// One of a few words.
  void add_choice(Option option, std::string& target, std::vector<std::string> choices);

  /// Arguments without a name; a command that does not declare them takes none.
  void positional(Positional about, std::vector<std::string>& target);

  /// Fills the variables. Returns false, and leaves them alone, where --help (-h) was given. Throws
  /// std::invalid_argument naming option, value and what is accepted.
  [[nodiscard]] bool parse(const std::vector<std::string>& args);

  /// After parse(): whether the option was given, on the command line or in the configuration file;
  /// a flag only if it was given as true.
  bool given(std::string_view name) const;

  /// After parse(): the error "--name VALUE: accepted is ...", for a rule that a range cannot
  /// express.
  std::invalid_argument rejected(std::string_view name, std::string_view accepted) const;

  /// After parse(): throws where both options were given.
  void exclude(std::string_view name, std::string_view other) const;
  /// After parse(): throws where the option was given and the other one, which it belongs to, was
  /// not.
  void require_with(std::string_view name, std::string_view other) const;

  /// Lines of at most 100 columns.
  std::string help() const;

 private:
  enum class Arity { kFlag, kOne, kMany };
  using Values = std::vector<std::string>;

  struct Declared {
    Option option;
    Arity arity = Arity::kOne;
    std::string group;
    std::string default_text;
    std::function<void(const Values&)> assign;
    Values given;
  };

  struct Parsed;

  void declare(Option option, Arity arity, std::string default_text,
               std::function<void(const Values&)> assign);
  Declared* find(std::string_view name);
  const Declared& get(std::string_view name) const;
  std::string expand(const std::string& token) const;
  Parsed parse_tokens(const std::vector<std::string>& args) const;
  Parsed parse_config(const std::string& path) const;
  void take_positional(const Values& values);
  void take(const Parsed& parsed, std::string_view place);
  [[noreturn]] void refuse_unknown(std::string_view spelled, std::string_view place) const;

  About about_;
  std::string group_;
  std::vector<Declared> declared_;
  std::optional<Positional> positional_;
  std::vector<std::string>* positional_target_ = nullptr;
  std::string config_path_;
};

}  // namespace headrace
