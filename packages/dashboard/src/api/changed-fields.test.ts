import { expect, test } from '@jest/globals'
import { changedFields, changedMembers } from './changed-fields.ts'

test('the body of a change has the fields that differ from the record, lists and objects by their content', () => {
  const opened = { name: 'Shop', scopes: ['stats:read'], expires_at: null, rate_limits: { events_per_minute: 5 } }
  expect(changedFields({ ...opened, scopes: ['stats:read'], rate_limits: { events_per_minute: 5 } }, opened)).toEqual(
    {},
  )
  expect(changedFields({ ...opened, name: 'Store' }, opened)).toEqual({ name: 'Store' })
  expect(changedFields({ ...opened, scopes: [], expires_at: 7, rate_limits: null }, opened)).toEqual({
    scopes: [],
    expires_at: 7,
    rate_limits: null,
  })
  expect(changedFields<{ secret?: string }>({ secret: 'new' }, {})).toEqual({ secret: 'new' })
})

test('of a nested object the members that differ are sent, and nothing where none does', () => {
  const opened = { threshold: 1, event_type: null }
  expect(changedMembers('condition', { ...opened, threshold: 2 }, opened)).toEqual({ condition: { threshold: 2 } })
  expect(changedMembers('condition', opened, { ...opened })).toEqual({})
})
