import { urlVariable } from '@sluice/runtime/variables'
import { parseKafkaUrl } from './kafka/url.ts'

const description = 'The event log: kafka://[user:password@]host:9092[,host:9092]/topic[?tls=true&sasl=scram-sha-512].'

/** SLUICE_LOG_URL of a service that runs in its own process. */
export const logUrl = urlVariable({ schemes: ['kafka'], description, check: parseKafkaUrl })

/** SLUICE_LOG_URL when the embedded log in the data folder is the default. */
export const logUrlOrEmbedded = {
  ...urlVariable({
    schemes: ['kafka', 'file'],
    description: `${description} Default: file:<SLUICE_DATA_DIR>/log.`,
    check: (url) => {
      if (url.startsWith('kafka:')) parseKafkaUrl(url)
    },
  }),
  optional: true as const,
}
