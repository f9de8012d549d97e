#include "communicator/engine.h"

#include <unistd.h>

#include "communicator/founding.h"
#include "communicator/settings.h"

namespace passing {

Expected<std::unique_ptr<Engine>> Engine::create(Config config) {
  if (auto valid = config.validate(); !valid) return tl::unexpected(valid.error());
  config.strategy = chosen_strategy(config);
  std::unique_ptr<Engine> engine(new Engine);
  auto mailbox = Mailbox::create();
  if (!mailbox) return tl::unexpected(mailbox.error());
  engine->mailbox_ = std::move(*mailbox);
  engine->process_ = getpid();
  auto nudge = Nudge::create();  // before others count on this rank
  if (!nudge) return tl::unexpected(nudge.error());
  auto founded = Founding(std::move(config)).found();
  if (!founded) return tl::unexpected(founded.error());
  const Group& group = *founded->group;
  engine->config_ = group.config;
  engine->names_ = group.names;
  engine->host_name_ = group.host_name;
  engine->plan_ = group.plan;
  if (group.host) engine->heap_.share(group.host);
  auto core =
      std::make_unique<Core>(std::move(founded->group), std::move(founded->witness), *engine->mailbox_);
  auto turns = Turns::create(engine->mailbox_, std::move(core), std::move(*nudge));
  if (!turns) return tl::unexpected(turns.error());
  engine->turns_ = std::move(*turns);
  return engine;
}

}  // namespace passing
