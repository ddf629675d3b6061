/** SLUICE_SECRETS_KEY of the test processes, those of services included. */
export const testSecretsKey = Buffer.alloc(32, 'test').toString('base64')
