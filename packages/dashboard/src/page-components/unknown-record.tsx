import { messages } from '../messages/en.ts'

/** Says that the page has no record with the id of the address. */
export const UnknownRecord = ({ id }: { id: string }) => (
  <p class="notice" role="alert">
    <bdi>{messages.errors.unknownRecord(id)}</bdi>
  </p>
)
