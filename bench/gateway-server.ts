// One gateway process as production runs it, on the log that LOG_URL names: `file:` too, which a gateway alone refuses.
import { openEventLog } from '@sluice/event-log/open-event-log'
import { buildGateway } from '@sluice/gateway/build'
import { keyCache } from '@sluice/http/key-cache'
import { runService } from '@sluice/http/run-service'
import { keyStore } from '@sluice/postgres/keys'
import { openPostgres } from '@sluice/postgres/open'
import { closing } from '@sluice/runtime/supervisor'
import { listenVariables, postgresUrl } from '@sluice/runtime/variables'
import { announce } from './child.ts'

await runService({
  name: 'gateway',
  variables: { ...listenVariables(0, '127.0.0.1'), SLUICE_POSTGRES_URL: postgresUrl },
  environment: process.env,
  build: async (config, context) => {
    const postgres = openPostgres(config.SLUICE_POSTGRES_URL)
    const log = await openEventLog(process.env.LOG_URL ?? '', { logger: context.logger })
    const keys = keyCache(keyStore(postgres), context.logger)
    return {
      service: buildGateway({ log, postgres, describeDurability: () => Promise.resolve([]) }, context),
      keys,
      engines: [closing('postgres', postgres), keys, closing('log', log)],
      onReady: (server) => {
        announce(server.port())
      },
    }
  },
})
