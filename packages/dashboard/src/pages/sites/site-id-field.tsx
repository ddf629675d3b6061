import { eventLimits } from '@sluice/contracts/event-limits'
import { TextField, type TextFieldProps } from '../../ui/field.tsx'
import { texts } from './messages.ts'

/** Whether a text can be the id of a site; white space around the id does not count. */
export function isSiteId(text: string): boolean {
  const id = text.trim()
  return id !== '' && Array.from(id).length <= eventLimits.siteIdLengthMax
}

/** The field for the id of a site, with which a form begins. */
export function SiteIdField(props: Pick<TextFieldProps, 'value' | 'onInput' | 'hint' | 'error'>) {
  return (
    <TextField
      {...props}
      label={texts.id}
      placeholder={texts.idExample}
      autofocus
      autocomplete="off"
      spellcheck={false}
    />
  )
}
