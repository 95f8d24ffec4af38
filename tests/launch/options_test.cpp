#include "launch/options.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace headrace {
namespace {

/// One variable of every kind, as a command would have them.
struct Values {
  std::vector<std::string> input;
  std::string dtype = "auto";
  int pipeline_parallel_size = 1;
  std::optional<int> top_k;
  std::vector<int> layers;
  double temperature = 1.0;
  ByteSize kv_bytes = {1U << 30};
  std::optional<std::string> error_file;
  bool overwrite = false;
};

class OptionSetTest : public testing::Test {
 protected:
  OptionSetTest() : options_({.command = "generate", .synopsis = "", .summary = "Runs requests."}) {
    options_.group("Input and output");
    options_.add({.name = "input", .value = "FILE...", .help = "request files"}, v_.input);
    options_.add({.name = "error-file", .value = "FILE", .help = "failed lines go here"},
                 v_.error_file);
    options_.add({.name = "overwrite", .help = "start afresh"}, v_.overwrite);
    options_.group("Model");
    options_.add_choice({.name = "dtype", .help = "type of weights"}, v_.dtype,
                        {"auto", "float32", "bfloat16"});
    options_.add({.name = "pipeline-parallel-size", .value = "P", .help = "stages", .alias = "pp"},
                 v_.pipeline_parallel_size, {.min = 1, .max = 64});
    options_.add({.name = "top-k", .value = "N", .help = "likeliest tokens", .fallback = "off"},
                 v_.top_k, {.min = -1});
    options_.add({.name = "layers", .value = "N,N...", .help = "layers of each stage"}, v_.layers,
                 {.min = 0});
    options_.add({.name = "temperature", .value = "X", .help = "of sampling"}, v_.temperature,
                 {.min = 0.0, .max = 2.0});
    options_.add({.name = "kv-cache-memory-bytes", .value = "SIZE", .help = "of the cache"},
                 v_.kv_bytes);
  }

  bool parse(const std::vector<std::string>& args) { return options_.parse(args); }

  /// The message that the arguments are refused with; empty if they are accepted.
  std::string refusal(const std::vector<std::string>& args) {
    try {
      static_cast<void>(options_.parse(args));
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "";
  }

  std::string config(const std::string& text) {
    const auto path =
        std::filesystem::path(testing::TempDir()) /
        ("options_" + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()) +
         ".cfg");
    std::ofstream(path) << text;
    return path.string();
  }

  Values v_;
  OptionSet options_;
};

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST_F(OptionSetTest, DefaultsStayWhereNothingIsGiven) {
  EXPECT_TRUE(parse({}));
  EXPECT_EQ(v_.dtype, "auto");
  EXPECT_EQ(v_.pipeline_parallel_size, 1);
  EXPECT_FALSE(v_.top_k.has_value());
  EXPECT_FALSE(options_.given("dtype"));
}

TEST_F(OptionSetTest, UnderscoresAndDashesNameTheSameOption) {
  EXPECT_TRUE(parse({"--pipeline_parallel_size", "4", "--kv_cache-memory_bytes=2GiB"}));
  EXPECT_EQ(v_.pipeline_parallel_size, 4);
  EXPECT_EQ(v_.kv_bytes.bytes, 2ULL << 30);
}

TEST_F(OptionSetTest, UnderscoresInValuesStay) {
  EXPECT_TRUE(parse({"--error_file=a_b.jsonl"}));
  EXPECT_EQ(v_.error_file, "a_b.jsonl");
}

TEST_F(OptionSetTest, SingleDashAliasesWork) {
  EXPECT_TRUE(parse({"-pp", "3"}));
  EXPECT_EQ(v_.pipeline_parallel_size, 3);
}

TEST_F(OptionSetTest, SingleDashAliasesTakeAnEqualsSign) {
  EXPECT_TRUE(parse({"-pp=5"}));
  EXPECT_EQ(v_.pipeline_parallel_size, 5);
}

TEST_F(OptionSetTest, NegativeNumbersAreValues) {
  EXPECT_TRUE(parse({"--top-k", "-1"}));
  EXPECT_EQ(v_.top_k, -1);
}

TEST_F(OptionSetTest, RepeatedListsAddUp) {
  EXPECT_TRUE(parse({"--input", "a", "b", "--overwrite", "--input", "-", "--input=c"}));
  EXPECT_EQ(v_.input, (std::vector<std::string>{"a", "b", "-", "c"}));
  EXPECT_TRUE(v_.overwrite);
}

TEST_F(OptionSetTest, CommaListsAreReadInOrder) {
  EXPECT_TRUE(parse({"--layers", "19,0,11"}));
  EXPECT_EQ(v_.layers, (std::vector<int>{19, 0, 11}));
}

TEST_F(OptionSetTest, CommaListsWithHolesAreRefused) {
  for (const char* bad : {"1,", ",1", "1,,2", "1;2", "1,-2"}) {
    EXPECT_NE(refusal({"--layers", bad}), "") << bad;
  }
}

TEST_F(OptionSetTest, UnknownOptionsAreNamedWithTheNearestKnownOne) {
  const std::string message = refusal({"--temprature", "1"});
  EXPECT_TRUE(contains(message, "--temprature")) << message;
  EXPECT_TRUE(contains(message, "did you mean --temperature?")) << message;
}

TEST_F(OptionSetTest, AbbreviationsAreNotGuessed) {
  const std::string message = refusal({"--temp", "1"});
  EXPECT_TRUE(contains(message, "unknown option --temp;")) << message;
  EXPECT_TRUE(contains(message, "did you mean --temperature?")) << message;
  EXPECT_EQ(v_.temperature, 1.0);
}

TEST_F(OptionSetTest, UnlikeOptionsGetNoSuggestion) {
  const std::string message = refusal({"--frobnicate"});
  EXPECT_TRUE(contains(message, "unknown option --frobnicate")) << message;
  EXPECT_FALSE(contains(message, "did you mean")) << message;
}

TEST_F(OptionSetTest, UnknownSingleDashOptionsAreRefused) {
  EXPECT_TRUE(contains(refusal({"-tp", "2"}), "unknown option -tp"));
}

TEST_F(OptionSetTest, ValuesOutOfRangeNameOptionValueAndRange) {
  EXPECT_EQ(refusal({"--pipeline-parallel-size", "65"}),
            "--pipeline-parallel-size \"65\": an integer from 1 to 64 is expected");
  EXPECT_EQ(refusal({"--temperature", "2.5"}),
            "--temperature \"2.5\": a number from 0 to 2 is expected");
  EXPECT_EQ(refusal({"--dtype", "fp8"}),
            "--dtype \"fp8\": one of auto, float32, bfloat16 is expected");
}

TEST_F(OptionSetTest, NumbersWithRestAreRefused) {
  for (const char* bad : {"1x", "0x2", "1.0", " 1", "1 ", "+1", "99999999999999999999"}) {
    EXPECT_TRUE(contains(refusal({"--pipeline-parallel-size", bad}), "an integer from")) << bad;
  }
  for (const char* bad : {"nan", "inf", "1e999", "1,5", "0.5f"}) {
    EXPECT_TRUE(contains(refusal({"--temperature", bad}), "a number from")) << bad;
  }
}

TEST_F(OptionSetTest, MissingValuesAreNamed) {
  EXPECT_TRUE(contains(refusal({"--dtype"}), "--dtype"));
  EXPECT_TRUE(contains(refusal({"--dtype", "--overwrite"}), "--dtype"));
  EXPECT_TRUE(contains(refusal({"--input"}), "--input"));
  EXPECT_TRUE(contains(refusal({"--dtype="}), "--dtype"));
}

TEST_F(OptionSetTest, FlagsTakeNoValue) {
  EXPECT_TRUE(contains(refusal({"--overwrite=maybe"}), "--overwrite"));
}

TEST_F(OptionSetTest, ContradictoryValuesAreRefused) {
  const std::string message = refusal({"--dtype", "float32", "--dtype", "bfloat16"});
  EXPECT_TRUE(contains(message, "--dtype is given twice")) << message;
}

TEST_F(OptionSetTest, TheSameValueTwiceIsNoContradiction) {
  EXPECT_TRUE(parse({"--dtype", "float32", "--dtype", "float32", "--overwrite", "--overwrite"}));
  EXPECT_EQ(v_.dtype, "float32");
}

TEST_F(OptionSetTest, ArgumentsWithoutANameAreRefused) {
  EXPECT_TRUE(contains(refusal({"stray"}), "unexpected argument \"stray\""));
  EXPECT_TRUE(contains(refusal({"--overwrite", "stray"}), "\"stray\""));
}

TEST_F(OptionSetTest, ConfigurationFilesUseTheSameNames) {
  const std::string path = config(
      "# a comment\n"
      "pipeline_parallel_size = 2\n"
      "overwrite = true\n"
      "input = a\n"
      "input = b\n"
      "temperature=0.5  # another\n");
  EXPECT_TRUE(parse({"--config", path}));
  EXPECT_EQ(v_.pipeline_parallel_size, 2);
  EXPECT_EQ(v_.input, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(v_.temperature, 0.5);
  EXPECT_TRUE(v_.overwrite);
  EXPECT_TRUE(options_.given("temperature"));
}

TEST_F(OptionSetTest, TheCommandLineWinsOverTheConfigurationFile) {
  const std::string path = config("pipeline-parallel-size = 2\ninput = a\noverwrite = false\n");
  EXPECT_TRUE(parse({"-pp", "7", "--config", path, "--input", "b", "--overwrite"}));
  EXPECT_EQ(v_.pipeline_parallel_size, 7);
  EXPECT_EQ(v_.input, std::vector<std::string>{"b"});
  EXPECT_TRUE(v_.overwrite);
}

TEST_F(OptionSetTest, AFlagThatAFileTurnsOffIsNotGiven) {
  EXPECT_TRUE(parse({"--config", config("overwrite = off\n")}));
  EXPECT_FALSE(v_.overwrite);
  EXPECT_FALSE(options_.given("overwrite"));
}

TEST_F(OptionSetTest, ConfigurationFilesRefuseWhatTheCommandLineRefuses) {
  const std::string path = config("tempratur = 1\n");
  const std::string message = refusal({"--config", path});
  EXPECT_TRUE(contains(message, path)) << message;
  EXPECT_TRUE(contains(message, "unknown option tempratur; did you mean --temperature?"))
      << message;
}

TEST_F(OptionSetTest, ConfigurationFilesNameBadValues) {
  const std::string message = refusal({"--config", config("dtype = int3\n")});
  EXPECT_TRUE(contains(message, "--dtype \"int3\": one of")) << message;
}

TEST_F(OptionSetTest, ConfigurationFilesMustHaveNamesAndValues) {
  EXPECT_TRUE(contains(refusal({"--config", config("overwrite\n")}), "name = value is expected"));
}

TEST_F(OptionSetTest, ConfigurationFilesDoNotNest) {
  EXPECT_TRUE(contains(refusal({"--config", config("config = other\n")}),
                       "config belongs on the command line"));
}

TEST_F(OptionSetTest, AMissingConfigurationFileIsNamed) {
  EXPECT_TRUE(contains(refusal({"--config", "/nonexistent/x.cfg"}), "/nonexistent/x.cfg"));
  EXPECT_TRUE(contains(refusal({"--config", testing::TempDir()}), "a readable file is expected"));
}

TEST_F(OptionSetTest, RulesBetweenOptionsNameBoth) {
  EXPECT_TRUE(parse({"--overwrite", "--error-file", "e"}));
  EXPECT_THROW(options_.exclude("overwrite", "error-file"), std::invalid_argument);
  EXPECT_NO_THROW(options_.exclude("overwrite", "dtype"));
  EXPECT_THROW(options_.require_with("overwrite", "dtype"), std::invalid_argument);
  EXPECT_NO_THROW(options_.require_with("overwrite", "error-file"));
  EXPECT_STREQ(options_.rejected("error-file", "a file is expected").what(),
               "--error-file \"e\": a file is expected");
}

TEST_F(OptionSetTest, HelpIsAskedForAnywhere) {
  EXPECT_FALSE(parse({"--overwrite", "--help"}));
  EXPECT_FALSE(parse({"-h"}));
  EXPECT_FALSE(v_.overwrite);
}

TEST_F(OptionSetTest, HelpFitsAScreenAndNamesEveryOption) {
  const std::string help = options_.help();
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), 100U) << line;
    EXPECT_FALSE(line.ends_with(' ')) << line;
  }
  for (const char* part : {"Input and output", "--input FILE...", "--dtype auto|float32|bfloat16",
                           "(-pp)", "[1GiB]", "[off]", "General", "--config FILE"}) {
    EXPECT_TRUE(contains(help, part)) << part << "\n" << help;
  }
}

TEST(OptionSetPositionals, AreCountedAndKeptInOrder) {
  std::vector<std::string> files;
  OptionSet options({.command = "compare", .synopsis = "A B", .summary = ""});
  options.positional({.names = "two files", .min = 2, .max = 2}, files);
  EXPECT_TRUE(options.parse({"x", "y"}));
  EXPECT_EQ(files, (std::vector<std::string>{"x", "y"}));
  EXPECT_TRUE(options.parse({"--", "--x", "-y"}));
  EXPECT_EQ(files, (std::vector<std::string>{"--x", "-y"}));
  EXPECT_THROW(static_cast<void>(options.parse({"x"})), std::invalid_argument);
  EXPECT_THROW(static_cast<void>(options.parse({"x", "y", "z"})), std::invalid_argument);
}

TEST(OptionSetRequired, AreMissedByName) {
  std::string model;
  OptionSet options({.command = "tokenize", .synopsis = "", .summary = ""});
  options.add({.name = "model", .value = "MODEL", .help = "the model", .required = true}, model);
  try {
    static_cast<void>(options.parse({}));
    FAIL() << "accepted";
  } catch (const std::invalid_argument& e) {
    EXPECT_TRUE(contains(e.what(), "--model MODEL is missing")) << e.what();
  }
}

TEST(ByteSizes, AreReadInBothKindsOfUnits) {
  EXPECT_EQ(parse_byte_size("0").bytes, 0U);
  EXPECT_EQ(parse_byte_size("9007199254740993").bytes, 9007199254740993U);  // 2^53 + 1
  EXPECT_EQ(parse_byte_size("17B").bytes, 17U);
  EXPECT_EQ(parse_byte_size("512MB").bytes, 512000000U);
  EXPECT_EQ(parse_byte_size("8GiB").bytes, 8ULL << 30);
  EXPECT_EQ(parse_byte_size("1.5gib").bytes, 3ULL << 29);
  EXPECT_EQ(parse_byte_size("2tib").bytes, 2ULL << 40);
}

TEST(ByteSizes, AreRefusedWhereTheyAreAmbiguousOrTooLarge) {
  for (const char* bad : {"", "GiB", "8G", "8K", "-1", "-1GiB", "1e3", "8 GiB", "8GiBs", "nan",
                          "inf", "99999999999999999999", "9000000000TiB", "0x10"}) {
    EXPECT_THROW(parse_byte_size(bad), std::invalid_argument) << bad;
  }
}

TEST(ByteSizes, AreShownWithTheirLargestWholeUnit) {
  EXPECT_EQ(byte_size_text({0}), "0");
  EXPECT_EQ(byte_size_text({1000}), "1000");
  EXPECT_EQ(byte_size_text({1536}), "1536");
  EXPECT_EQ(byte_size_text({2048}), "2KiB");
  EXPECT_EQ(byte_size_text({64ULL << 20}), "64MiB");
}

TEST(NearestWord, ToleratesSlipsButNotOtherWords) {
  const std::vector<std::string> words = {"model", "input", "output", "max-num-seqs"};
  EXPECT_EQ(nearest_word("modle", words), "model");
  EXPECT_EQ(nearest_word("imput", words), "input");
  EXPECT_EQ(nearest_word("max-num-seq", words), "max-num-seqs");
  EXPECT_EQ(nearest_word("max", words), "max-num-seqs");
  EXPECT_EQ(nearest_word("zebra", words), std::nullopt);
  EXPECT_EQ(nearest_word("", words), std::nullopt);
}

}  // namespace
}  // namespace headrace
