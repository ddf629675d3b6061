import { describe, expect, test } from '@jest/globals'
import { tlsOf } from './dump.ts'

// libpq must verify everything that pg verifies. The services connect with pg.
describe('the TLS of pg_dump and pg_restore is', () => {
  const verified = { PGSSLMODE: 'verify-full', PGSSLROOTCERT: 'system' }
  test.each([
    ['sslmode=require', verified],
    ['sslmode=verify-full', verified],
    ['ssl=true', verified],
    ['ssl=1', verified],
    ['sslnegotiation=direct', verified],
    ['sslrootcert=/ca.pem', verified],
    ['sslmode=no-verify', { PGSSLMODE: 'require' }],
    ['ssl=no-verify', { PGSSLMODE: 'require' }],
    ['sslmode=disable', { PGSSLMODE: 'disable' }],
    ['ssl=0', {}],
    ['', {}],
  ])('that of the services for %s', (parameters, expected) =>
    expect(tlsOf(new URLSearchParams(parameters))).toStrictEqual(expected),
  )
})
