#include "launch/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace headrace {
namespace po = boost::program_options;
namespace {

constexpr unsigned kHelpColumns = 98;  // Boost may exceed its limit by a little
constexpr std::string_view kCommandLine = "";

/// The name part of "--name=value" with underscores turned into dashes; the value stays as it is.
std::string with_dashes(std::string token) {
  const std::size_t end = std::min(token.find('='), token.size());
  std::replace(token.begin(), token.begin() + static_cast<std::ptrdiff_t>(end), '_', '-');
  return token;
}

bool is_long(std::string_view token) {
  return token.size() > 2 && token.starts_with("--");
}

/// "-tp" and the like, but not "-" (standard input) and not a negative number.
bool is_single_dash(std::string_view token) {
  return token.size() > 1 && token[0] == '-' &&
         std::isalpha(static_cast<unsigned char>(token[1])) != 0;
}

std::string in_place(std::string_view place) {
  return place.empty() ? std::string() : fmt::format("{}: ", place);
}

/// What an option accepts, from the exception of the function that read its value.
[[noreturn]] void refuse_value(const std::string& name, const std::string& value,
                               std::string_view accepted, std::string_view place = kCommandLine) {
  throw std::invalid_argument(
      fmt::format("{}--{} \"{}\": {}", in_place(place), name, value, accepted));
}

/// Boost leaves a space where it breaks a line.
std::string without_trailing_spaces(const std::string& text) {
  std::string out;
  for (const char c : text) {
    while (c == '\n' && out.ends_with(' ')) out.pop_back();
    out += c;
  }
  return out;
}

std::string number_text(double value) {
  return fmt::format("{}", value);
}

}  // namespace

struct OptionSet::Parsed {
  struct Item {
    std::string name;     // with dashes; not necessarily a known one
    std::string spelled;  // as the user wrote it, for messages
    Values values;
  };
  std::vector<Item> items;
  Values positional;
};

OptionSet::OptionSet(About about) : about_(std::move(about)) {
  group("General");
  declare({.name = "config",
           .value = "FILE",
           .help = "options in FILE, one `name = value` a line; the command line wins"},
          Arity::kOne, "", [this](const Values& v) { config_path_ = v[0]; });
  declare({.name = "help", .help = "print this text (also -h)", .alias = "h"}, Arity::kFlag, "",
          [](const Values&) {});
  group("Options");
}

void OptionSet::group(std::string title) {
  group_ = std::move(title);
}

void OptionSet::declare(Option option, Arity arity, std::string default_text,
                        std::function<void(const Values&)> assign) {
  if (!option.fallback.empty()) default_text = option.fallback;
  declared_.push_back({.option = std::move(option),
                       .arity = arity,
                       .group = group_,
                       .default_text = std::move(default_text),
                       .assign = std::move(assign),
                       .given = {}});
}

void OptionSet::add(Option option, bool& target) {
  declare(std::move(option), Arity::kFlag, "",
          [&target](const Values& v) { target = parse_boolean(v[0]); });
}

void OptionSet::add(Option option, std::string& target) {
  declare(std::move(option), Arity::kOne, target, [&target](const Values& v) { target = v[0]; });
}

void OptionSet::add(Option option, std::optional<std::string>& target) {
  declare(std::move(option), Arity::kOne, "", [&target](const Values& v) { target = v[0]; });
}

void OptionSet::add(Option option, std::vector<std::string>& target) {
  declare(std::move(option), Arity::kMany, fmt::format("{}", fmt::join(target, " ")),
          [&target](const Values& v) { target = v; });
}

void OptionSet::add(Option option, int& target, IntRange range) {
  range = {std::max<std::int64_t>(range.min, std::numeric_limits<int>::min()),
           std::min<std::int64_t>(range.max, std::numeric_limits<int>::max())};
  declare(
      std::move(option), Arity::kOne, std::to_string(target),
      [&target, range](const Values& v) { target = static_cast<int>(parse_integer(v[0], range)); });
}

void OptionSet::add(Option option, std::int64_t& target, IntRange range) {
  declare(std::move(option), Arity::kOne, std::to_string(target),
          [&target, range](const Values& v) { target = parse_integer(v[0], range); });
}

void OptionSet::add(Option option, std::optional<int>& target, IntRange range) {
  range = {std::max<std::int64_t>(range.min, std::numeric_limits<int>::min()),
           std::min<std::int64_t>(range.max, std::numeric_limits<int>::max())};
  declare(std::move(option), Arity::kOne, "", [&target, range](const Values& v) {
    target = static_cast<int>(parse_integer(v[0], range));
  });
}

void OptionSet::add(Option option, std::optional<std::int64_t>& target, IntRange range) {
  declare(std::move(option), Arity::kOne, "",
          [&target, range](const Values& v) { target = parse_integer(v[0], range); });
}

void OptionSet::add(Option option, std::vector<int>& target, IntRange each) {
  each = {std::max<std::int64_t>(each.min, std::numeric_limits<int>::min()),
          std::min<std::int64_t>(each.max, std::numeric_limits<int>::max())};
  declare(std::move(option), Arity::kOne, fmt::format("{}", fmt::join(target, ",")),
          [&target, each](const Values& v) {
            std::vector<int> numbers;
            std::string_view rest = v[0];
            for (bool more = true; more;) {
              const std::size_t comma = rest.find(',');
              more = comma != std::string_view::npos;
              numbers.push_back(static_cast<int>(parse_integer(rest.substr(0, comma), each)));
              if (more) rest.remove_prefix(comma + 1);
            }
            target = std::move(numbers);
          });
}

void OptionSet::add(Option option, double& target, RealRange range) {
  declare(std::move(option), Arity::kOne, number_text(target),
          [&target, range](const Values& v) { target = parse_real(v[0], range); });
}

void OptionSet::add(Option option, std::optional<double>& target, RealRange range) {
  declare(std::move(option), Arity::kOne, "",
          [&target, range](const Values& v) { target = parse_real(v[0], range); });
}

void OptionSet::add(Option option, ByteSize& target) {
  declare(std::move(option), Arity::kOne, byte_size_text(target),
          [&target](const Values& v) { target = parse_byte_size(v[0]); });
}

void OptionSet::add(Option option, std::optional<ByteSize>& target) {
  declare(std::move(option), Arity::kOne, "",
          [&target](const Values& v) { target = parse_byte_size(v[0]); });
}

void OptionSet::add_choice(Option option, std::string& target, std::vector<std::string> choices) {
  if (option.value.empty()) option.value = fmt::format("{}", fmt::join(choices, "|"));
  declare(std::move(option), Arity::kOne, target,
          [&target, choices = std::move(choices)](const Values& v) {
            if (std::find(choices.begin(), choices.end(), v[0]) == choices.end()) {
              throw std::invalid_argument(
                  fmt::format("one of {} is expected", fmt::join(choices, ", ")));
            }
            target = v[0];
          });
}

void OptionSet::positional(Positional about, std::vector<std::string>& target) {
  positional_ = std::move(about);
  positional_target_ = &target;
}

bool OptionSet::parse(const std::vector<std::string>& args) {
  for (Declared& d : declared_) d.given.clear();
  const Parsed line = parse_tokens(args);
  for (const Parsed::Item& item : line.items) {
    if (item.name == "help") return false;
  }
  take(line, kCommandLine);
  take_positional(line.positional);
  if (const Values& config = find("config")->given; !config.empty()) {
    take(parse_config(config[0]), config[0]);
  }
  for (const Declared& d : declared_) {
    if (d.option.required && d.given.empty()) {
      throw std::invalid_argument(
          fmt::format("--{} {} is missing; it is required (headrace {} --help)", d.option.name,
                      d.option.value, about_.command));
    }
  }
  return true;
}

OptionSet::Declared* OptionSet::find(std::string_view name) {
  const auto it = std::find_if(declared_.begin(), declared_.end(),
                               [&](const Declared& d) { return d.option.name == name; });
  return it == declared_.end() ? nullptr : &*it;
}

const OptionSet::Declared& OptionSet::get(std::string_view name) const {
  const auto it = std::find_if(declared_.begin(), declared_.end(),
                               [&](const Declared& d) { return d.option.name == name; });
  if (it == declared_.end()) throw std::logic_error(fmt::format("undeclared option {}", name));
  return *it;
}

/// One spelling for the parser: dashes in the name, aliases written out.
std::string OptionSet::expand(const std::string& token) const {
  if (is_long(token)) return with_dashes(token);
  if (!is_single_dash(token)) return token;
  const std::size_t end = std::min(token.find('='), token.size());
  const std::string_view name = std::string_view(token).substr(1, end - 1);
  for (const Declared& d : declared_) {
    if (d.option.alias == name) return "--" + d.option.name + token.substr(end);
  }
  refuse_unknown(token.substr(0, end), kCommandLine);
}

OptionSet::Parsed OptionSet::parse_tokens(const std::vector<std::string>& args) const {
  po::options_description known;
  for (const Declared& d : declared_) {
    if (d.arity == Arity::kFlag) {
      known.add_options()(d.option.name.c_str(), "");
    } else {
      auto* value = po::value<Values>();
      if (d.arity == Arity::kMany) value->multitoken();
      known.add_options()(d.option.name.c_str(), value, "");
    }
  }
  std::vector<std::string> tokens;
  bool options_ended = false;
  for (const std::string& arg : args) {
    options_ended = options_ended || arg == "--";
    tokens.push_back(options_ended ? arg : expand(arg));
  }
  // Without allow_guessing a shortened name is unknown; without short options "-1" is a value.
  using namespace po::command_line_style;
  const int style = allow_long | long_allow_adjacent | long_allow_next;
  Parsed parsed;
  try {
    for (const po::option& o : po::command_line_parser(tokens)
                                   .options(known)
                                   .style(style)
                                   .allow_unregistered()
                                   .run()
                                   .options) {
      if (o.position_key >= 0) {
        parsed.positional.insert(parsed.positional.end(), o.value.begin(), o.value.end());
      } else {
        parsed.items.push_back(
            {.name = o.string_key, .spelled = "--" + o.string_key, .values = o.value});
      }
    }
  } catch (const po::invalid_command_line_syntax& e) {
    const std::string name = e.get_option_name();
    if (e.kind() == po::invalid_syntax::extra_parameter) {
      throw std::invalid_argument(fmt::format("{} takes no value", name));
    }
    throw std::invalid_argument(fmt::format("{} needs a value", name));
  }
  return parsed;
}

OptionSet::Parsed OptionSet::parse_config(const std::string& path) const {
  std::ifstream file(path);
  if (!file || std::filesystem::is_directory(path)) {
    throw std::invalid_argument(fmt::format("--config \"{}\": a readable file is expected", path));
  }
  Parsed parsed;
  try {
    for (const po::option& o :
         po::parse_config_file(file, po::options_description(), /*allow_unregistered=*/true)
             .options) {
      parsed.items.push_back(
          {.name = with_dashes(o.string_key), .spelled = o.string_key, .values = o.value});
    }
  } catch (const po::invalid_syntax& e) {
    throw std::invalid_argument(
        fmt::format("{}: line \"{}\": name = value is expected", path, e.tokens()));
  }
  for (const Parsed::Item& item : parsed.items) {
    if (item.name == "config" || item.name == "help") {
      throw std::invalid_argument(
          fmt::format("{}: {} belongs on the command line", path, item.name));
    }
  }
  return parsed;
}

void OptionSet::take_positional(const Values& values) {
  const int count = static_cast<int>(values.size());
  if (!positional_ && count > 0) {
    throw std::invalid_argument(
        fmt::format("unexpected argument \"{}\" (headrace {} --help)", values[0], about_.command));
  }
  if (positional_ && (count < positional_->min || count > positional_->max)) {
    throw std::invalid_argument(fmt::format("{} expects {}, got {} argument{} (headrace {} --help)",
                                            about_.command, positional_->names, count,
                                            count == 1 ? "" : "s", about_.command));
  }
  if (positional_) *positional_target_ = values;
}

/// Assigns what was parsed in one place. Options that were given before, on the command line, stay.
void OptionSet::take(const Parsed& parsed, std::string_view place) {
  std::vector<Declared*> seen_here;
  for (const Parsed::Item& item : parsed.items) {
    Declared* d = find(item.name);
    if (d == nullptr) refuse_unknown(item.spelled, place);
    const bool first_here = std::find(seen_here.begin(), seen_here.end(), d) == seen_here.end();
    if (first_here && !d->given.empty()) continue;
    Values values = item.values;
    if (values.empty()) values.emplace_back("true");
    if (!first_here && d->arity != Arity::kMany && values != d->given) {
      throw std::invalid_argument(fmt::format("{}--{} is given twice, as \"{}\" and \"{}\"",
                                              in_place(place), item.name, d->given[0], values[0]));
    }
    if (first_here) seen_here.push_back(d);
    if (d->arity != Arity::kMany) d->given.clear();
    d->given.insert(d->given.end(), values.begin(), values.end());
  }
  for (Declared* d : seen_here) {
    try {
      d->assign(d->given);
    } catch (const std::invalid_argument& e) {
      refuse_value(d->option.name, d->given[0], e.what(), place);
    }
  }
}

void OptionSet::refuse_unknown(std::string_view spelled, std::string_view place) const {
  std::vector<std::string> names;
  for (const Declared& d : declared_) names.push_back(d.option.name);
  const std::size_t letters = std::min(spelled.find_first_not_of('-'), spelled.size());
  const auto meant = nearest_word(with_dashes(std::string(spelled.substr(letters))), names);
  const std::string hint = meant ? fmt::format("; did you mean --{}?", *meant) : std::string();
  throw std::invalid_argument(fmt::format("{}unknown option {}{} (headrace {} --help lists them)",
                                          in_place(place), spelled, hint, about_.command));
}

bool OptionSet::given(std::string_view name) const {
  const Declared& d = get(name);
  if (d.arity == Arity::kFlag) return !d.given.empty() && parse_boolean(d.given[0]);
  return !d.given.empty();
}

std::invalid_argument OptionSet::rejected(std::string_view name, std::string_view accepted) const {
  const Declared& d = get(name);
  const std::string value =
      d.given.empty() ? d.default_text : fmt::format("{}", fmt::join(d.given, " "));
  return std::invalid_argument(fmt::format("--{} \"{}\": {}", name, value, accepted));
}

void OptionSet::exclude(std::string_view name, std::string_view other) const {
  if (given(name) && given(other)) {
    throw std::invalid_argument(fmt::format("--{} and --{} exclude each other", name, other));
  }
}

void OptionSet::require_with(std::string_view name, std::string_view other) const {
  if (given(name) && !given(other)) {
    throw std::invalid_argument(fmt::format("--{} is only for --{}", name, other));
  }
}

std::string OptionSet::help() const {
  constexpr unsigned kDescriptionColumns = 62;
  std::vector<std::string> titles;
  for (const Declared& d : declared_) {
    if (std::find(titles.begin(), titles.end(), d.group) == titles.end()) titles.push_back(d.group);
  }
  std::rotate(titles.begin(), titles.begin() + 1, titles.end());  // General comes last
  po::options_description all("", kHelpColumns, kDescriptionColumns);
  for (const std::string& title : titles) {
    po::options_description section(title, kHelpColumns, kDescriptionColumns);
    for (const Declared& d : declared_) {
      if (d.group != title) continue;
      std::string text = d.option.help;
      if (!d.option.alias.empty() && d.option.alias != "h") text += " (-" + d.option.alias + ")";
      if (!d.default_text.empty()) text += " [" + d.default_text + "]";
      const std::string name = d.option.name;
      if (d.arity == Arity::kFlag) {
        section.add_options()(name.c_str(), text.c_str());
      } else {
        section.add_options()(name.c_str(), po::value<Values>()->value_name(d.option.value),
                              text.c_str());
      }
    }
    all.add(section);
  }
  std::ostringstream out;
  out << "Usage: headrace " << about_.command << (about_.synopsis.empty() ? "" : " ")
      << about_.synopsis << " [options]\n"
      << about_.summary << "\n"
      << all;
  return without_trailing_spaces(out.str());
}

}  // namespace headrace
