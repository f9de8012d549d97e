// `passing lab link`: what a link does to packets, changed while the lab runs.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "cli/lab_parts.h"

namespace passing::cli {
namespace {

struct Options {
  std::string name;
  std::string link;
  std::optional<double> loss;
  std::optional<double> duplication;
  std::optional<double> reordering;
  std::optional<std::string> rate;
  bool down = false;
  bool up = false;
  bool clear = false;
};

bool says_nothing(const Options& options) {
  return !options.loss && !options.duplication && !options.reordering && !options.rate && !options.down &&
         !options.up && !options.clear;
}

Expected<void> edit(const Options& options, const std::string& name, const lab::LinkState& made,
                    lab::LinkState& link) {
  if (options.clear) link = made;
  if (options.loss) link.impairment.loss = *options.loss;
  if (options.duplication) link.impairment.duplication = *options.duplication;
  if (options.reordering) link.impairment.reordering = *options.reordering;
  if (options.down || options.up) link.down = options.down;
  if (!options.rate) return {};
  if ((*options.rate == "none") != (link.rate == "none")) {
    return fail(
        ErrorCode::invalid_argument,
        fmt::format("--rate: link {} was made with rate {}, and its counts would begin anew: make the lab "
                    "{} --rate",
                    name, link.rate, link.rate == "none" ? "with" : "without"));
  }
  link.rate = *options.rate;
  return {};
}

int run(const Options& options) {
  if (says_nothing(options)) {
    return complain(
        "link: nothing to change: give --loss, --duplication, --reordering, --rate, --down, --up or --clear",
        kBadInput);
  }
  auto cluster = open_lab(options.name);
  if (!cluster) return complain(cluster.error().message);
  const auto made = lab::initial(cluster->map());
  if (options.link != "all" && !made.contains(options.link)) {
    std::string list;
    for (const lab::Wire& wire : cluster->map().wires()) list += wire.name + ", ";
    return complain(fmt::format("there is no link '{}' in lab '{}': there are {}and all", options.link,
                                cluster->state().name, list),
                    kBadInput);
  }
  const auto changed = cluster->change([&](lab::LinkStates& links) -> Expected<void> {
    for (auto& [name, link] : links) {
      if (options.link != "all" && options.link != name) continue;
      if (auto edited = edit(options, name, made.at(name), link); !edited) return edited;
    }
    return {};
  });
  return changed ? 0 : complain(changed.error().message);
}

}  // namespace

void add_lab_link(CLI::App& lab) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      lab.add_subcommand("link",
                         "Change a link of a lab while it runs.\n\nThe lab is one that is up, or that of a "
                         "running `passing lab run`. Both directions change.");
  add_name_option(*command, options->name);
  command->add_option("link", options->link, "which link: host0, server0, rack0 (a rack's uplink), or all")
      ->required();
  for (const auto& [name, where, what] :
       {std::tuple{"--loss", &options->loss, "percent of packets that it loses"},
        {"--duplication", &options->duplication, "percent of packets that arrive twice"},
        {"--reordering", &options->reordering, "percent of packets that arrive late, behind others"}}) {
    command->add_option(name, *where, what)->check(CLI::Range(0.0, 50.0));
  }
  command->add_option("--rate", options->rate, "rate each way, as tc writes it (1gbit, 200mbit)")
      ->check(rate_of_link());
  CLI::Option* down = command->add_flag("--down", options->down, "take the link down: it carries nothing");
  command->add_flag("--up", options->up, "bring the link up again")->excludes(down);
  command->add_flag("--clear", options->clear,
                    "first remove all faults and restore the rate of the beginning");
  command->footer(
      "Examples:\n  passing lab link host0 --loss 5\n  passing lab link rack1 --down\n  passing lab link all "
      "--clear");
  command->callback([options] { finish(run(*options)); });
}

}  // namespace passing::cli
