import { flagVariable, optionalSecretVariable } from '@sluice/runtime/variables'
import { keyEnvironment } from './api-key.ts'

/** SLUICE_ADMIN_KEY of the query service. */
export const adminKey = optionalSecretVariable(
  'Admin key for automated installations. At its start, Sluice stores this key if it is unknown. Generate the key with another installation. Without it, `npm run admin-key` creates one.',
  (key) => {
    if (keyEnvironment(key) === undefined) throw new Error('is not a key: its prefix, length or checksum is wrong')
  },
)

/** SLUICE_AUTO_REGISTER_SITES of gateway and query service. */
export const autoRegisterSites = flagVariable(
  'true: the first event of a site registers it. false: only POST /api/v1/sites and the site_ids of keys do.',
  true,
)
