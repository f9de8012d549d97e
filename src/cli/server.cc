// `passing server`: a parameter server, for the strategies ps and ps_hierarchical.
#include "server/server.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <fstream>
#include <memory>
#include <string>

#include "cli/commands.h"

namespace passing::cli {
namespace {

constexpr std::uint16_t kPort = 9100;

struct Options {
  std::string listen = "0.0.0.0:9100";
  std::uint32_t index = 0;
  std::uint32_t of = 1;
  std::string token;
  std::string token_file;
};

int complain(const std::string& sentence) {
  fmt::print(stderr, "passing server: {}\n", sentence);
  return kBadInput;
}

int run(const Options& options) {
  log_to_stderr("server");
  const auto listen = net::parse_address(options.listen, kPort);
  if (!listen) return complain("--listen: " + listen.error().message);
  std::string token = options.token;
  if (token.empty() && !options.token_file.empty()) {
    std::ifstream file(options.token_file);
    if (!std::getline(file, token)) {
      return complain(fmt::format("--token-file is '{}': cannot be read; name a file that this user may read",
                                  options.token_file));
    }
    token.erase(token.find_last_not_of("\r\n") + 1);
  }
  if (options.index >= options.of) {
    return complain(fmt::format("--index is {}: must be below --of, {}", options.index, options.of));
  }
  const int signals = ending_signals();
  auto server =
      server::ParameterServer::start({.listen = *listen,
                                      .index = options.index,
                                      .of = options.of,
                                      .token = token,
                                      .log = [](const std::string& line) { spdlog::info("{}", line); }});
  if (!server) return complain("--listen: " + server.error().message);
  spdlog::info("listening on TCP {}; key range {} of {}", net::to_string((*server)->address()), options.index,
               options.of);
  spdlog::info("ending on {}", await_ending(signals));
  return 0;
}

}  // namespace

void add_server(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "server",
      "Run a parameter server. Ranks push gradients to it and pull the sums.\n\nThe strategies ps and "
      "ps_hierarchical use it. Several servers own a range of every tensor's elements each: start them with "
      "--index 0, 1, ... and the same --of, and give the ranks all addresses "
      "(PASSING_SERVERS=HOST:PORT,HOST:PORT).");
  command->add_option("--listen", options->listen, "TCP address where ranks enrol")
      ->envname("PASSING_SERVER_LISTEN")
      ->capture_default_str();
  command
      ->add_option("--index", options->index,
                   "which range of every tensor's elements this server owns, from 0; below --of")
      ->envname("PASSING_SERVER_INDEX")
      ->check(whole_number(0, 1023))
      ->capture_default_str();
  command->add_option("--of", options->of, "how many servers there are")
      ->envname("PASSING_SERVER_OF")
      ->check(whole_number(1, 1024))
      ->capture_default_str();
  command
      ->add_option("--token", options->token,
                   "secret that ranks must give. The variable is safer: command lines are public")
      ->envname("PASSING_TOKEN");
  command->add_option("--token-file", options->token_file, "file that holds the secret")
      ->envname("PASSING_TOKEN_FILE");
  command->footer("Example:\n  passing server --listen 0.0.0.0:9100 --index 0 --of 2");
  command->fallthrough();  // for --config
  command->callback([options] {
    if (const int status = run(*options); status != 0) throw CLI::RuntimeError(status);
  });
}

}  // namespace passing::cli
