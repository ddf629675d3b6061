import { describe, expect, test } from '@jest/globals'
import { canonicalTimeZone } from '@sluice/contracts/sites'
import { validate } from '@sluice/runtime/validate'
import { createSiteBody, updateSiteBody } from './sites.ts'

const everything = {
  name: '\u{1F600}'.repeat(128),
  timezone: 'Europe/Berlin',
  conversion_event: 'e'.repeat(64),
  retention_days: 3_650,
}

describe('a new site', () => {
  test('has an id and the optional settings that were sent', () => {
    expect(validate(createSiteBody, { site_id: 's' })).toStrictEqual({ site_id: 's' })
    const body = { site_id: '\u{1F600}'.repeat(64), ...everything }
    expect(validate(createSiteBody, body)).toStrictEqual(body)
    expect(validate(createSiteBody, { site_id: 's', retention_days: 1 })).toMatchObject({ retention_days: 1 })
  })

  test('has no name if the name is "" or null', () => {
    for (const name of ['', null])
      expect(validate(createSiteBody, { site_id: 's', name })).toStrictEqual({ site_id: 's' })
  })

  test('must have an id', () => {
    for (const body of [{}, { site_id: '' }, { site_id: null }]) {
      expect(() => validate(createSiteBody, body)).toThrow('Missing required field: site_id')
    }
  })
})

describe('the body of an update', () => {
  test('has the fields that were sent, with null where a setting is reset, and no defaults', () => {
    for (const body of [{}, everything, { conversion_event: null, retention_days: null }]) {
      expect(validate(updateSiteBody, body)).toStrictEqual(body)
    }
  })

  test.each<[object, string]>([
    [{ name: '' }, 'name must not be empty'],
    [{ name: null }, 'name must be a string'],
    [{ name: 'n'.repeat(129) }, 'name exceeds maximum length of 128'],
    [{ timezone: null }, 'timezone must be a string'],
    [{ timezone: 'Mars/Base' }, 'timezone must be an IANA time zone, e.g. Europe/Berlin'],
    [{ conversion_event: '' }, 'conversion_event must not be empty'],
    [{ conversion_event: 'e'.repeat(65) }, 'conversion_event exceeds maximum length of 64'],
    [{ retention_days: 0 }, 'retention_days must be at least 1'],
    [{ retention_days: 3_651 }, 'retention_days must be at most 3650'],
    [{ retention_days: 1.5 }, 'retention_days must be an integer'],
    [{ site_id: '' }, 'site_id must not be empty'],
    [{ name: ' ' }, 'name must not be blank'],
    [{ created_at: 1 }, 'created_at is not known'],
  ])('is rejected when it is %j', (body, reason) => {
    const message = `Invalid field: ${reason}`
    expect(() => validate(updateSiteBody, body)).toThrow(expect.objectContaining({ code: 'invalid_field', message }))
  })
})

describe('the time zone', () => {
  test.each([
    ['UTC', 'UTC'],
    ['utc', 'UTC'],
    ['Europe/Berlin', 'Europe/Berlin'],
    ['europe/BERLIN', 'Europe/Berlin'],
    ['US/Pacific', 'America/Los_Angeles'],
    ['Etc/GMT+5', 'Etc/GMT+5'],
    ['est', 'America/Panama'],
    ['Cet', 'Europe/Brussels'],
  ])('%s has the main name %s', (name, expected) => expect(canonicalTimeZone(name)).toBe(expected))

  test.each([
    '',
    ' ',
    'Berlin',
    'Mars/Base',
    '+02:00',
    '-0200',
    '+2',
    '\u22120200',
    'UTC+2',
    'Europe/Berlin ',
    '__proto__',
    // Intl takes them for the zones of Dhaka, Calcutta and Los Angeles.
    'BST',
    'IST',
    'pst',
  ])('%j does not exist', (name) => expect(canonicalTimeZone(name)).toBeUndefined())
})
