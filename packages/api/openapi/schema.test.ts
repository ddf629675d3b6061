import { describe, expect, it } from '@jest/globals'
import { Ajv2020 } from 'ajv/dist/2020.js'
import joi from 'joi'
import { eventSchema } from '@sluice/events/event-schema'
import { text } from '@sluice/runtime/schemas'
import { validate } from '@sluice/runtime/validate'
import { updateAlertBody } from '../alerts.ts'
import { createErasureBody } from '../erasures.ts'
import { createExportBody } from '../exports.ts'
import { createKeyBody, rotateKeyBody } from '../keys.ts'
import { createSiteBody, updateSiteBody } from '../sites.ts'
import { statsQuery } from '../stats.ts'
import { toJsonSchema } from './schema.ts'
import type { JsonSchema } from './types.ts'

function acceptedBy(schema: joi.ObjectSchema, value: unknown): { joi: boolean; document: boolean } {
  const components: Record<string, JsonSchema> = {}
  const ajv = new Ajv2020({ allowUnionTypes: true, coerceTypes: true, validateFormats: false })
  ajv.addVocabulary(['components'])
  const json = { ...toJsonSchema(schema, 'input', components), components: { schemas: components } }
  const document = ajv.validate(json, structuredClone(value))
  try {
    validate(schema, value, { receivedAt: Date.now() })
    return { joi: true, document }
  } catch {
    return { joi: false, document }
  }
}

describe('the JSON Schema of a joi schema', () => {
  const event = { site_id: 's', event_type: 't' }
  const stats = { site_id: 's', metric: 'event_count' }
  it.each<[string, joi.ObjectSchema, unknown, boolean]>([
    ['a text of 64 code points', eventSchema, { ...event, user_id: '😀'.repeat(64) }, true],
    ['a text of 65 code points', eventSchema, { ...event, user_id: 'a'.repeat(65) }, false],
    ['a text with NUL', eventSchema, { ...event, user_id: 'a\0' }, false],
    ['null for an optional text', eventSchema, { ...event, user_id: null }, true],
    ['an empty optional text', eventSchema, { ...event, user_id: '' }, true],
    ['an empty required text', eventSchema, { ...event, site_id: '' }, false],
    ['an event of 1970', eventSchema, { ...event, timestamp: 1 }, false],
    ['a country in lower case', eventSchema, { ...event, country: 'de' }, true],
    ['an empty country', eventSchema, { ...event, country: '' }, true],
    ['an empty name of a site', createSiteBody, { site_id: 's', name: '' }, true],
    ['a blank name of a site', createSiteBody, { site_id: 's', name: ' ' }, false],
    ['an empty name of an export', createExportBody, { site_id: 's', type: 'events', format: 'csv', name: '' }, true],
    ['an empty new name of a site', updateSiteBody, { name: '' }, false],
    ['an empty country in a query', statsQuery, { ...stats, country: '' }, true],
    ['a country of three letters', eventSchema, { ...event, country: 'deu' }, false],
    ['a list as properties', eventSchema, { ...event, properties: [] }, false],
    ['null for an enumeration', eventSchema, { ...event, device_type: null }, true],
    ['a value outside an enumeration', eventSchema, { ...event, device_type: 'watch' }, false],
    ['an unknown scope', createKeyBody, { name: 'n', scopes: ['root'] }, false],
    ['a scope twice', createKeyBody, { name: 'n', scopes: ['admin', 'admin'] }, false],
    ['null for a list', createKeyBody, { name: 'n', site_ids: null }, true],
    ['null for a time', createKeyBody, { name: 'n', expires_at: null }, true],
    ['null for conditions', updateAlertBody, { condition: { filter: null } }, true],
    ['an empty list of sites', createKeyBody, { name: 'n', site_ids: [] }, false],
    ['an unknown field', createKeyBody, { name: 'n', colour: 'red' }, false],
    ['a limit of 0', createKeyBody, { name: 'n', rate_limits: { events_per_minute: 0 } }, false],
    ['a duration', rotateKeyBody, { overlap: '7d' }, true],
    ['a duration of weeks', rotateKeyBody, { overlap: '1w' }, false],
    ['a retention of 0 days', createSiteBody, { site_id: 's', retention_days: 0 }, false],
    ['a number in a query', statsQuery, { ...stats, start_date: '1000' }, true],
    ['a fraction in a query', statsQuery, { ...stats, start_date: '1000.5' }, false],
    ['a limit of 1001', statsQuery, { ...stats, limit: '1001' }, false],
    ['an erasure without a selector', createErasureBody, {}, false],
    ['an unknown metric', statsQuery, { ...stats, metric: 'happiness' }, false],
    ['an unknown period', statsQuery, { ...stats, period: '2h' }, false],
  ])('accepts or rejects %s as joi does', (_, schema, value, expected) => {
    expect(acceptedBy(schema, value)).toEqual({ joi: expected, document: expected })
  })

  it('cannot be made of a custom rule without .meta()', () => {
    const schema = joi.object({ even: joi.number().custom((value: number) => value) })
    expect(() => toJsonSchema(schema, 'input', {})).toThrow(/no \.meta\(\)/)
  })

  it('cannot be made of a pattern with flags', () => {
    expect(() => toJsonSchema(joi.object({ word: joi.string().pattern(/^a$/i) }), 'input', {})).toThrow(/no flags/)
  })

  it('has the type of .meta() in place of the keywords before it', () => {
    const list = joi.array().items(text(8)).max(3).meta({ description: 'A list.' })
    const schema = joi.object({ list: list.meta({ type: 'string', maxLength: 9 }) })
    expect(toJsonSchema(schema, 'input', {}).properties).toEqual({
      list: { type: 'string', maxLength: 9, description: 'A list.' },
    })
  })

  it('is one component for a schema with an id', () => {
    const components: Record<string, JsonSchema> = {}
    const thing = joi.object({ name: text(8).required() }).id('Thing')
    expect(toJsonSchema(joi.object({ things: joi.array().items(thing) }), 'output', components)).toMatchObject({
      properties: { things: { items: { $ref: '#/components/schemas/Thing' } } },
    })
    expect(components.Thing).toMatchObject({ properties: { name: { maxLength: 8 } }, additionalProperties: false })
    expect(() => toJsonSchema(joi.object({ other: text(8) }).id('Thing'), 'output', components)).toThrow(/two schemas/)
  })
})
