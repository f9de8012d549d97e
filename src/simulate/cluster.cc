#include "simulate/cluster.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <vector>

#include "simulate/cluster_keys.h"

namespace passing::simulate {
namespace {

constexpr const char* kPlacements = R"("none", "spine" or "tree")";

class Reader {
 public:
  Reader(std::string path, const toml::table& file) : path_(std::move(path)), file_(file) {}

  Expected<Cluster> read() {
    if (auto known = check_names(); !known) return tl::unexpected(known.error());
    Cluster cluster;
    if (auto named = read_name(cluster); !named) return tl::unexpected(named.error());
    if (auto placed = read_placement(cluster); !placed) return tl::unexpected(placed.error());
    for (const Key& key : cluster_keys()) {
      if (auto done = read_key(key, cluster); !done) return tl::unexpected(done.error());
    }
    if (auto fits = check_tables(cluster); !fits) return tl::unexpected(fits.error());
    if (cluster.server_gbps == 0) cluster.server_gbps = cluster.nic_gbps;
    for (const auto& [table, name, wrong] : misfits(cluster))
      return refuse(line_of(table, name), fmt::format("{}.{} {}", table, name, wrong));
    return cluster;
  }

  struct Misfit {
    const char* table;
    const char* name;
    std::string wrong;
  };
  /// Values that are right by themselves, but not together.
  static std::vector<Misfit> misfits(const Cluster& c) {
    std::vector<Misfit> found;
    if (c.hosts_per_rack > c.hosts) {
      found.push_back(
          {"racks", "hosts_per_rack",
           fmt::format("is {}, but hosts.count is {}: expected at most as many", c.hosts_per_rack, c.hosts)});
    }
    if (c.placement == Placement::tree && c.hosts_per_rack > c.members) {
      found.push_back(
          {"racks", "hosts_per_rack",
           fmt::format("is {}, but a switch takes switch.members = {}: expected at most as many, so that the "
                       "switch of a rack can sum it",
                       c.hosts_per_rack, c.members)});
    }
    if (c.has_straggler() && c.straggler_host >= c.hosts) {
      found.push_back({"straggler", "host",
                       fmt::format("is {}, but hosts.count is {}: expected a host from 0 to {}",
                                   c.straggler_host, c.hosts, c.hosts - 1)});
    }
    return found;
  }

 private:
  tl::unexpected<Error> refuse(std::size_t line, const std::string& what) const {
    return fail(ErrorCode::invalid_argument,
                line == 0 ? fmt::format("{}: {}", path_, what) : fmt::format("{}:{}: {}", path_, line, what));
  }

  const toml::table* table(const char* name) const { return file_[name].as_table(); }
  std::size_t line_of(const char* in, const char* name) const {
    const toml::table* where = table(in);
    if (where == nullptr) return 0;
    const toml::node* node = where->get(name);
    return node != nullptr ? node->source().begin.line : where->source().begin.line;
  }

  // Whatever nobody knows, with what there is.
  Expected<void> check_names() const {
    std::map<std::string, std::vector<std::string>> tables;
    for (const Key& key : cluster_keys()) tables[key.table].emplace_back(key.name);
    tables["switch"].emplace_back("placement");
    for (const auto& [name, node] : file_) {
      const std::size_t line = node.source().begin.line;
      const std::string text(name.str());
      if (text == "name") continue;
      const auto found = tables.find(text);
      if (found == tables.end()) {
        std::vector<std::string> names;
        names.reserve(tables.size());
        for (const auto& each : tables) names.push_back("[" + each.first + "]");
        return refuse(line, fmt::format("{}: unknown key; expected name, or one of the tables {}", text,
                                        fmt::join(names, ", ")));
      }
      const toml::table* inner = node.as_table();
      if (inner == nullptr) return refuse(line, fmt::format("{}: expected a table, [{}]", text, text));
      for (const auto& [key, value] : *inner) {
        const std::string own(key.str());
        if (std::ranges::find(found->second, own) != found->second.end()) continue;
        return refuse(value.source().begin.line, fmt::format("{}.{}: unknown key; expected one of {}", text,
                                                             own, fmt::join(found->second, ", ")));
      }
    }
    return {};
  }

  Expected<void> read_name(Cluster& cluster) const {
    const toml::node* node = file_.get("name");
    if (node == nullptr) return refuse(0, "name is missing: expected a text");
    if (!node->is_string()) return refuse(node->source().begin.line, "name: expected a text");
    cluster.name = node->ref<std::string>();
    return {};
  }

  Expected<void> read_placement(Cluster& cluster) const {
    const toml::table* where = table("switch");
    const toml::node* node = where == nullptr ? nullptr : where->get("placement");
    if (node == nullptr) {
      return refuse(line_of("switch", "placement"),
                    fmt::format("switch.placement is missing: expected {}", kPlacements));
    }
    const std::string text = node->is_string() ? node->ref<std::string>() : "";
    if (text == "none") {
      cluster.placement = Placement::none;
    } else if (text == "spine") {
      cluster.placement = Placement::spine;
    } else if (text == "tree") {
      cluster.placement = Placement::tree;
    } else {
      return refuse(node->source().begin.line,
                    fmt::format("switch.placement is {}: expected {}", shown(*node), kPlacements));
    }
    return {};
  }

  static std::string shown(const toml::node& node) {
    std::ostringstream text;
    node.visit([&](const auto& each) { text << each; });
    return text.str();
  }

  Expected<void> read_key(const Key& key, Cluster& cluster) const {
    const toml::table* where = table(key.table);
    const toml::node* node = where == nullptr ? nullptr : where->get(key.name);
    if (node == nullptr) {
      if (!key.required) return {};
      return refuse(line_of(key.table, key.name),
                    fmt::format("{} is missing: expected {}", key.full(), key.expected()));
    }
    const bool number = node->is_integer() || (node->is_floating_point() && key.real != nullptr);
    const double value = number ? node->value<double>().value_or(std::nan("")) : std::nan("");
    if (!(value >= key.least && value <= key.most)) {
      return refuse(node->source().begin.line,
                    fmt::format("{} is {}: expected {}", key.full(), shown(*node), key.expected()));
    }
    if (key.whole != nullptr) {
      cluster.*key.whole = static_cast<unsigned>(value);
    } else {
      cluster.*key.real = value;
    }
    return {};
  }

  // What belongs together.
  Expected<void> check_tables(const Cluster& cluster) const {
    const toml::table* switches = table("switch");
    for (const char* name : {"slots", "members", "elements_per_packet", "overhead_bytes", "ingest_gbps"}) {
      const bool there = switches->get(name) != nullptr;
      if (cluster.placement == Placement::none && there) {
        return refuse(
            line_of("switch", name),
            fmt::format(
                R"(switch.{} contradicts switch.placement = "none": expected no such key, or a placement)",
                name));
      }
      const bool needed = std::string_view(name) == "slots" || std::string_view(name) == "members";
      if (cluster.placement != Placement::none && needed && !there) {
        return refuse(line_of("switch", name),
                      fmt::format("switch.{} is missing: expected a whole number", name));
      }
    }
    const toml::table* latency = table("latency");
    if (cluster.placement != Placement::none && latency->get("round_trip_us") == nullptr) {
      return refuse(line_of("latency", "round_trip_us"),
                    "latency.round_trip_us is missing: expected a number from 0 on");
    }
    const toml::table* servers = table("servers");
    if (servers != nullptr && servers->get("count") == nullptr) {
      return refuse(line_of("servers", "count"),
                    "servers.count is missing: expected a whole number from 1 on");
    }
    const toml::table* straggler = table("straggler");
    if (straggler != nullptr && straggler->get("host") == nullptr)
      return refuse(line_of("straggler", "host"), "straggler.host is missing: expected the number of a host");
    return {};
  }

  std::string path_;
  const toml::table& file_;
};

}  // namespace

Expected<Cluster> read_cluster(const std::string& path) {
  std::ifstream file(path);
  if (!file) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{} cannot be read ({}): docs/simulation.md says what a cluster file is", path,
                            std::strerror(errno)));
  }
  try {
    return Reader(path, toml::parse(file, path)).read();
  } catch (const toml::parse_error& error) {
    return fail(ErrorCode::invalid_argument,
                fmt::format("{}:{}: is not TOML: {}", path, error.source().begin.line, error.description()));
  }
}

std::string contradiction(const Cluster& cluster) {
  const auto found = Reader::misfits(cluster);
  return found.empty() ? "" : fmt::format("{}.{} {}", found[0].table, found[0].name, found[0].wrong);
}

}  // namespace passing::simulate
