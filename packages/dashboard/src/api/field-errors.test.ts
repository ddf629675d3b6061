import { describe, expect, it } from '@jest/globals'
import { ApiError } from './error.ts'
import { fieldErrors, fieldOf, problemOf } from './field-errors.ts'

describe('the field that an error names', () => {
  it.each([
    ['Invalid field: url exceeds maximum length of 2048', 'url'],
    ['Missing required field: condition.metric', 'condition.metric'],
    ['Rate limit exceeded. Retry after 3 seconds.', undefined],
  ])('of %s is %s', (message, field) => expect(fieldOf(message)).toBe(field))

  it('gets the error when the form shows it, a list that of its members', () => {
    const error = new ApiError(400, 'Invalid field: site_ids[1] must not be empty')
    const errors = fieldErrors(error, ['name', 'site_ids'])
    expect(errors.forField('site_ids')).toBe('Must not be empty')
    expect(errors.forField('name')).toBeUndefined()
    expect(errors.rest).toBeUndefined()
  })

  it('is not in the sentence next to it, whatever the name of the column', () => {
    const message = 'Invalid field: Created at must be a time'
    expect(problemOf(message, 'Created at')).toBe('Must be a time')
    expect(problemOf(message, 'timestamp')).toBeUndefined()
    expect(problemOf('Missing required field: name', 'name')).toBeUndefined()
  })

  it('asks for a field that is missing', () => {
    const error = new ApiError(400, 'Missing required field: name')
    expect(fieldErrors(error, ['name']).forField('name')).toBe('Fill in this field.')
  })

  it('leaves what names no field of the form to the form', () => {
    const error = new ApiError(400, 'Invalid field: rate_limits must be an object')
    expect(fieldErrors(error, ['name']).rest).toBe(error)
    const refused = new ApiError(403, 'Insufficient scope: requires admin')
    expect(fieldErrors(refused, ['name']).rest).toBe(refused)
  })
})
