import { useState } from 'preact/hooks'
import { useLocation } from 'preact-iso'
import { fieldErrors } from '../../api/field-errors.ts'
import { useChange } from '../../api/hooks.ts'
import { sitePath } from '../../state/route.ts'
import { Combobox } from '../../ui/combobox.tsx'
import { Field, TextField } from '../../ui/field.tsx'
import { FormDialog } from '../../ui/form-dialog.tsx'
import { ownZone } from '../../ui/time.tsx'
import { texts } from './messages.ts'

const idLengthMax = 64

/** Registers a site and leads to it. */
export function AddSite({ onClose }: { onClose: () => void }) {
  const { route } = useLocation()
  const create = useChange('createSite', ['listSites'])
  const [id, setId] = useState('')
  const [name, setName] = useState('')
  const [zone, setZone] = useState(ownZone)
  const [isTried, setTried] = useState(false)
  const errors = fieldErrors(create.error, ['site_id', 'name', 'timezone'])
  const isWrong = id.trim() === '' || Array.from(id.trim()).length > idLengthMax
  return (
    <FormDialog
      title={texts.add}
      submit={texts.add}
      onClose={onClose}
      isBusy={create.isBusy}
      error={errors.rest}
      onSubmit={async () => {
        setTried(true)
        if (isWrong) return
        const { site_id: siteId } = await create.run({
          body: { site_id: id.trim(), timezone: zone, ...(name.trim() === '' ? {} : { name: name.trim() }) },
        })
        onClose()
        route(sitePath(siteId))
      }}
    >
      <TextField
        label={texts.id}
        hint={texts.idHint}
        placeholder={texts.idExample}
        value={id}
        onInput={setId}
        autofocus
        autocomplete="off"
        spellcheck={false}
        error={(isTried && isWrong ? texts.missingId : undefined) ?? errors.of('site_id')}
      />
      <TextField
        label={texts.name}
        isOptional
        value={name}
        onInput={setName}
        autocomplete="off"
        error={errors.of('name')}
      />
      <Field label={texts.zone} error={errors.of('timezone')}>
        {(attributes) => (
          <Combobox
            attributes={attributes}
            value={zone}
            options={['UTC', ...Intl.supportedValuesOf('timeZone').filter((each) => each !== 'UTC')].map((value) => ({
              value,
              label: value,
            }))}
            onChange={setZone}
          />
        )}
      </Field>
    </FormDialog>
  )
}
