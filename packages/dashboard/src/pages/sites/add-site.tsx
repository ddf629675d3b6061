import { useEffect, useRef, useState } from 'preact/hooks'
import { useLocation } from 'preact-iso/router'
import { type ApiError, asApiError } from '../../api/error.ts'
import { fieldErrors } from '../../api/field-errors.ts'
import { useOperationMutation } from '../../api/hooks.ts'
import { zoneNames } from '../../app/zones.ts'
import { ownZone } from '../../format/dates.ts'
import { sitePath } from '../../state/route.ts'
import { Combobox } from '../../ui/combobox.tsx'
import { Field, TextField } from '../../ui/field.tsx'
import { FormDialog } from '../../ui/form-dialog.tsx'
import { texts } from './messages.ts'
import { isSiteId, SiteIdField } from './site-id-field.tsx'

/** Whether a failure says that the site already exists. */
const isTaken = ({ status, isUnderWay }: ApiError) => status === 409 && !isUnderWay

/** Registers a site and leads to it. */
export function AddSite({ onClose }: { onClose: () => void }) {
  const { route } = useLocation()
  const create = useOperationMutation('createSite', ['listSites'])
  const [id, setId] = useState('')
  const [name, setName] = useState('')
  const [zone, setZone] = useState(ownZone)
  const [isTried, setTried] = useState(false)
  // The id for which the server has answered that it exists.
  const [taken, setTaken] = useState<string>()
  const errors = fieldErrors(create.error, ['site_id', 'name', 'timezone'])
  const isWrong = !isSiteId(id)
  const isShown = useRef(true)
  useEffect(
    () => () => {
      isShown.current = false
    },
    [],
  )
  return (
    <FormDialog
      title={texts.add}
      submit={texts.add}
      onClose={onClose}
      isBusy={create.isBusy}
      error={create.error !== undefined && isTaken(create.error) ? undefined : errors.rest}
      onSubmit={async () => {
        setTried(true)
        if (isWrong) return
        const body = { site_id: id.trim(), timezone: zone, ...(name.trim() === '' ? {} : { name: name.trim() }) }
        try {
          await create.run({ body })
        } catch (error) {
          if (isTaken(asApiError(error))) setTaken(body.site_id)
          return
        }
        // A reader who has closed the form stays where they are.
        if (!isShown.current) return
        onClose()
        route(sitePath(body.site_id))
      }}
    >
      <SiteIdField
        value={id}
        onInput={setId}
        hint={texts.idHint}
        error={
          (isTried && isWrong ? texts.missingId : undefined) ??
          (taken === id.trim() ? texts.taken(taken) : undefined) ??
          errors.forField('site_id')
        }
      />
      <TextField
        label={texts.name}
        isOptional
        value={name}
        onInput={setName}
        autocomplete="off"
        error={errors.forField('name')}
      />
      <Field label={texts.zone} error={errors.forField('timezone')}>
        {(attributes) => (
          <Combobox
            attributes={attributes}
            value={zone}
            options={zoneNames().map((value) => ({ value, label: value }))}
            onChange={setZone}
          />
        )}
      </Field>
    </FormDialog>
  )
}
