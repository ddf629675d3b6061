/** Columns of an external table of events (`EventRow`s): times stay integers, the insert converts them. */
export const eventStructure = [
  'site_id String',
  'environment String',
  'event_type String',
  'timestamp Int64',
  'event_id String',
  'undated UInt8',
  'session_id String',
  'user_id String',
  'anonymous_id String',
  'url String',
  'referrer String',
  'country String',
  'device_type String',
  'properties Map(String, String)',
  'property_types Map(String, String)',
  'received_at Int64',
].join(', ')
